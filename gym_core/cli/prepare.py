"""`gym eval prepare`: the data files of a benchmark, made by its own script and made again when that changes."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gym_core.cli.prepare_script import PrepareScript
from gym_core.cli.selection import Selection
from gym_core.cli.stamps import changes, write_stamp
from gym_core.cli.terminal import counted, duration, printable, say, tell
from gym_core.errors import ConfigError

if TYPE_CHECKING:
    from gym_core.config.datasets import SelectedDataset


def prepare_command(args: argparse.Namespace) -> int:
    from gym_core.config.datasets import read_environments, select_datasets

    composed = Selection.of(args).compose()
    environments = read_environments(composed)
    split, environment = composed.values.get("split"), composed.values.get("environment")
    for selected in select_datasets(environments, composed, split=split, environment=environment):
        is_forced = args.force and selected.script is not None
        if is_forced or not is_up_to_date(selected):
            prepare_dataset(selected)
        else:
            how = "--force prepares it again" if selected.script is not None else "no script makes it"
            tell(f"prepare: {selected.dataset.name}: up to date; {how}")
        tell_warnings(selected)
        say(str(selected.path))
    return 0


def ensure_prepared(selected: "SelectedDataset", *, reuse: bool) -> None:
    """Before a run. With `reuse` a file that is there is taken as it is; without, one that its script would change is
    made again."""
    name = selected.dataset.name
    if reuse and selected.path.is_file():
        if changed := changes(selected):
            tell(f"prepare: {name}: reusing {selected.path} as asked, but since it was made {_have_changed(changed)}")
    else:
        if not selected.path.is_file():
            tell(f"prepare: {name}: {selected.path} does not exist yet")
        if not is_up_to_date(selected):
            prepare_dataset(selected)
    tell_warnings(selected)


def is_up_to_date(selected: "SelectedDataset") -> bool:
    """Whether the file is there and is what its script would make now, or came from elsewhere."""
    return selected.path.is_file() and not changes(selected)


def prepare_dataset(selected: "SelectedDataset") -> None:
    """Run its script: `prepare(args, jsonl_fpath)` returns the path it wrote. Raises ConfigError, EpisodeError."""
    name = selected.dataset.name
    if selected.script is None:
        raise ConfigError(f"prepare: {name}: {selected.path} does not exist and no prepare_script makes it")
    tell(f"prepare: {name}: running {selected.script}")
    start = time.monotonic()
    selected.path.parent.mkdir(parents=True, exist_ok=True)
    written = PrepareScript(selected.script, dataset=name).prepare(dict(selected.dataset.prepare_args), selected.path)
    if written != selected.path or not selected.path.is_file():
        raise ConfigError(f"prepare: {name}: its script wrote {written!s}, not {selected.path}")
    write_stamp(selected)
    tasks = counted(_count_lines(selected.path), "task")
    tell(f"prepare: {name}: {tasks} in {duration(time.monotonic() - start)}")


def tell_warnings(selected: "SelectedDataset") -> None:
    """What the script wrote under `warnings` into `X_manifest.json`, where it wrote one."""
    from gym_core.datasets.manifest import manifest_warnings

    for warning in manifest_warnings(selected.path):
        tell(f"prepare: {selected.dataset.name}: {printable(warning)}")


def _have_changed(what: list[str]) -> str:
    return f"{' and '.join(what)} {'has' if len(what) == 1 else 'have'} changed"


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
