"""What `gym doctor` finds on this machine's disks: the prepared data, room for results, the sandboxes' toolkit."""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gym_core.cli.terminal import counted
from gym_core.datasets.digest import sha256_of
from gym_core.types.checkup import CheckState, Finding

if TYPE_CHECKING:
    from gym_core.config.blocks import CheckedConfig
    from gym_core.config.datasets import SelectedDataset
    from gym_core.types.run import RunOptions

_MIN_FREE_BYTES = 200 << 20
_GOOD_FREE_BYTES = 2 << 30
"""A benchmark of 400 tasks leaves about 1 GB of pictures and model calls."""
DATA_LIMIT_S = 60.0
"""Of reading pictures; what is left then is said to be unread."""


def data_finding(selected: "SelectedDataset") -> Finding:
    """Blocking. Rows and pictures are read, each picture compared with its hash."""
    from gym_core.cli.stamps import changes

    name, path = selected.dataset.name, selected.path

    def finding(state: CheckState, found: str, advice: str = "") -> Finding:
        tried = "its rows read, its pictures compared with their hashes"
        return Finding(check="data", state=state, tried=tried, on=f"{name} ({path})", found=found, advice=advice)

    how = "`gym eval prepare` makes it; so does the next run"
    if not path.is_file():
        if selected.script is None:
            return finding(CheckState.FAIL, "not there, and no script makes it", "put the file there")
        return finding(CheckState.WARN, "not prepared yet", how)
    try:
        found = _read(path)
    except (OSError, ValueError) as error:
        return finding(CheckState.FAIL, str(error)[:500], "`gym eval prepare --force` makes it again")
    if changed := changes(selected):
        return finding(CheckState.WARN, f"{found}; since it was made {' and '.join(changed)} changed", how)
    return finding(CheckState.OK, found)


def _read(path: Path) -> str:
    """Raises ValueError for a row that is no task or a picture that is not what its name says, OSError."""
    from gym_core.capture.images import image_urls, parse_reference
    from gym_core.datasets.prepared import assets_of, read_dataset

    assets, deadline = assets_of(path), time.monotonic() + DATA_LIMIT_S
    rows, unread, known = 0, 0, set[str]()
    for task in read_dataset(path):
        rows += 1
        for url in image_urls(task.responses_create_params):
            sha256 = parse_reference(url)
            if sha256 in known:
                continue
            known.add(sha256)
            if time.monotonic() > deadline:
                unread += 1
            else:
                assets.get(sha256)
    if not rows:
        raise ValueError("the file holds no task")
    digest = sha256_of(path)
    late = f", {unread} of them not compared for lack of time" if unread else ""
    return f"{counted(rows, 'task')}, {counted(len(known), 'picture')}{late}; sha256 {digest[:16]}"


def disk_finding(folder: Path, *, what: str) -> Finding:
    """Room in a folder that may not be there yet."""
    there = next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
    free = shutil.disk_usage(there).free

    def finding(state: CheckState, advice: str = "") -> Finding:
        found = f"{free / 2**30:.1f} GiB free"
        return Finding(check="disk", state=state, tried=f"room for {what}", on=str(folder), found=found, advice=advice)

    if free < _MIN_FREE_BYTES:
        return finding(CheckState.FAIL, "make room, or choose another place: --output, GYM_STATE_DIR, GYM_CACHE_DIR")
    if free < _GOOD_FREE_BYTES:
        return finding(CheckState.WARN, "a large benchmark leaves a gigabyte or more")
    return finding(CheckState.OK)


def output_finding(path: Path) -> Finding:
    """Whether a run's files can be written there; nothing that was made to see it stays."""
    from gym_core.errors import ConfigError
    from gym_core.rollout.output import check_output_path

    def finding(state: CheckState, found: str, advice: str = "") -> Finding:
        tried = "its folder written to"
        return Finding(check="output", state=state, tried=tried, on=str(path), found=found, advice=advice)

    try:
        check_output_path(path)
    except ConfigError as error:
        return finding(CheckState.FAIL, str(error), "choose another --output")
    return finding(CheckState.OK, "it can be written")


def resume_finding(path: Path, evaluation: "tuple[CheckedConfig, RunOptions] | None") -> Finding | None:
    """What a run would make of the rollouts that are there; None when there are none. Blocking.

    Without an evaluation, a checked configuration and its options, only the files themselves are looked at.
    """
    from gym_core.errors import ConfigError
    from gym_core.launch.preview import preview_run
    from gym_core.rollout.saved import SavedRun, known_manifest

    if not path.is_file() or not path.stat().st_size:
        return None

    def finding(state: CheckState, found: str, advice: str = "") -> Finding:
        tried = "the rollouts that are there read"
        return Finding(check="resume", state=state, tried=tried, on=str(path), found=found, advice=advice)

    try:
        saved = SavedRun(path)
        rollouts = sum(1 for _ in saved.outlines())
        if rollouts:
            known_manifest(saved)
        found = f"{counted(rollouts, 'rollout')}: a run goes on from there"
        if evaluation is not None and rollouts:
            preview = preview_run(*evaluation)
            left = "" if preview.left is None else f", {preview.left} to play"
            found = f"{preview.resume.kept} are kept, {preview.resume.again} tried again{left}"
    except ConfigError as error:
        return finding(CheckState.FAIL, "; ".join(error.problems), "choose another --output, or do what it says")
    if saved.torn_bytes:
        cut = f"its last line is cut off: {saved.torn_bytes} bytes"
        return finding(CheckState.WARN, f"{found}; {cut}", "nothing: a run takes them away and plays that one again")
    if rollouts and not saved.files.captures.is_dir():
        return finding(CheckState.WARN, f"{found}; {saved.files.captures} is not there", "copy it along")
    return finding(CheckState.OK, found)


def toolkit_finding() -> Finding:
    """What embedded sandboxes carry, every file compared. Blocking, about a second."""
    from gym_core.sandbox import toolkit

    path = toolkit.toolkit_dir()

    def finding(state: CheckState, found: str, advice: str = "") -> Finding:
        tried = "every file compared with its manifest"
        return Finding(check="toolkit", state=state, tried=tried, on=str(path), found=found, advice=advice)

    if not toolkit.is_built():
        return finding(CheckState.WARN, "not built yet", "`gym sandbox build` makes it; so does the first run")
    if problems := toolkit.verify(path):
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        return finding(CheckState.FAIL, "; ".join(problems[:3]) + more, "`gym sandbox build --rebuild` replaces it")
    versions = toolkit.read_manifest(path).versions
    return finding(CheckState.OK, ", ".join(f"{name} {version}" for name, version in versions.items()))
