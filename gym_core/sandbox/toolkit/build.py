"""Build the toolkit, or verify the one that is there: one builder at a time, never half of one under its final name."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.toolkit.cache import make_cache_folder
from gym_core.sandbox.toolkit.manifest import Manifest, scan, write_manifest
from gym_core.sandbox.toolkit.npm import NpmClient
from gym_core.sandbox.toolkit.opencode_home import write_opencode_home
from gym_core.sandbox.toolkit.plan import TOOLKIT_MOUNT, ToolkitPlan, plan_toolkit
from gym_core.sandbox.toolkit.process import run_tool
from gym_core.sandbox.toolkit.python_env import install_python, probe_python
from gym_core.sandbox.toolkit.verify import verify

_STAGING_PREFIX = ".toolkit-building-"
_PROGRAM_TIMEOUT_S = 60.0

Report = Callable[[str], None]
"""Takes one line about what is being done."""


def build(report: Report, *, rebuild: bool = False) -> Path:
    """The toolkit's folder, built, or verified if it was there. Blocks: seconds to verify, about a minute to build.

    A toolkit that was changed after it was built is refused, unless `rebuild`: then another one takes its place. Raises
    ConfigError for what the user must decide, SandboxUnavailable for a step that failed. Nothing is left behind then.
    """
    plan = plan_toolkit()
    cache = make_cache_folder()
    with _only_builder(cache, report):
        for leftover in cache.glob(f"{_STAGING_PREFIX}*"):
            report(f"removing what a stopped build left: {leftover.name}")
            shutil.rmtree(leftover)
        if plan.folder.exists():
            report(f"verifying {plan.folder}")
            problems = verify(plan.folder)
            if not problems:
                return plan.folder
            if not rebuild:
                raise SandboxUnavailable(_changed(problems))
        with _staging(cache) as staging:
            _fill(staging / "new", plan, report)
            if plan.folder.exists():
                plan.folder.rename(staging / "old")
            os.sync()  # a power cut must not leave the final name on files that were never written
            (staging / "new").rename(plan.folder)
    return plan.folder


def _fill(root: Path, plan: ToolkitPlan, report: Report) -> None:
    (root / "bin").mkdir(parents=True)
    pins, downloads = plan.pins, root.with_name("downloads")
    npm = NpmClient(pins.node, downloads)
    report(f"fetching OpenCode {pins.opencode.version}")
    npm.fetch(pins.opencode, root / "bin" / "opencode")
    report("fetching ripgrep")
    npm.fetch(pins.ripgrep, root / "bin" / "rg")
    write_opencode_home(root / "opencode", pins.opencode.version)
    report(f"installing {', '.join(pins.python_packages)} for Python {plan.interpreter.version}")
    install_python(root, plan.interpreter, pins, mount=TOOLKIT_MOUNT)
    _open_to_all(root)
    report("trying each program as an unprivileged user")
    _expect_version(root / "bin" / "opencode", pins.opencode.version, home=root.with_name("home"))
    _expect_version(root / "bin" / "rg", "ripgrep", home=root.with_name("home"))
    python_version = probe_python(root)
    packages = dict(package.split("==", 1) for package in pins.python_packages)
    versions = {"opencode": pins.opencode.version, "python": python_version, **packages}
    write_manifest(root, Manifest(plan.identity, versions, scan(root)))


def _expect_version(program: Path, expected: str, *, home: Path) -> None:
    home.mkdir(exist_ok=True)
    home.chmod(0o1777)  # OpenCode unpacks a library into TMPDIR; removed with the staging folder
    said = run_tool(
        [str(program), "--version"],
        what=f"trying {program.name}",
        env={"HOME": str(home), "TMPDIR": str(home)},
        cwd=home,
        timeout_s=_PROGRAM_TIMEOUT_S,
        unprivileged=True,
    )
    if not said.startswith(expected):
        raise SandboxUnavailable(f"toolkit: {program.name} --version said {said.strip()!r}, not {expected!r}")


def _open_to_all(root: Path) -> None:
    """Sandboxes are somebody else: all readable, folders and programs executable, nothing writable but by the owner."""
    for folder, _, files in os.walk(root):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in files):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


@contextmanager
def _staging(cache: Path) -> Iterator[Path]:
    staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=cache))
    staging.chmod(0o755)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # the next build removes what could not be


@contextmanager
def _only_builder(cache: Path, report: Report) -> Iterator[None]:
    """The kernel frees the lock when its holder dies, however it dies."""
    with (cache / "toolkit.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another build of the toolkit")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _changed(problems: list[str]) -> str:
    shown = "\n  ".join(problems[:20])
    more = f"\n  ... and {len(problems) - 20} more" if len(problems) > 20 else ""
    remedy = "`gym sandbox build --rebuild` puts a new one in its place"
    return f"toolkit: changed since it was built:\n  {shown}{more}\n{remedy}"
