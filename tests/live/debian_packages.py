"""Programs of tests that are Debian packages: downloaded and unpacked into a folder, not installed. Needs no root."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gym_core.sandbox.toolkit.cache import make_cache_folder

_SECONDS_APT_MAY_TAKE = 600.0


class NoPackages(Exception):
    """Why they cannot be had here."""


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """A folder with the files of the packages, and of all that they need and this machine lacks.

    A minute or two the first time on a machine, then at once. Raises NoPackages.
    """
    digest = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8]
    folder = make_cache_folder() / name
    folder.mkdir(exist_ok=True)
    root = folder / f"root-{digest}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            _unpack(packages, root)
    return root


def library_path(root: Path) -> str:
    """What `LD_LIBRARY_PATH` has to be for the programs in there."""
    return ":".join(sorted({str(path.parent) for path in root.glob("usr/lib/*/lib*.so*")}))


def download(packages: Sequence[str], archives: Path) -> None:
    """The packages, and all that they need and this machine lacks, as files of a new folder. Raises NoPackages."""
    if not shutil.which("apt-get"):
        raise NoPackages(f"{', '.join(packages)}: made from Debian packages, and there is no apt-get")
    with tempfile.TemporaryDirectory(dir=archives.parent) as folder:
        for made in (archives / "partial", Path(folder, "lists/partial")):
            made.mkdir(parents=True)
        # Lists and archives of its own, so that nothing of the system is written; and root's apt would become _apt,
        # who may not write here.
        places = {"Dir::State::Lists": f"{folder}/lists", "Dir::Cache": folder, "Dir::Cache::Archives": str(archives)}
        settings = places | {"Debug::NoLocking": "true", "APT::Sandbox::User": "root"}
        apt = ["apt-get", *(f"-o{name}={value}" for name, value in settings.items())]
        _run([*apt, "update"])
        _run([*apt, "install", "--download-only", "--no-install-recommends", "--yes", "--reinstall", *packages])


def _unpack(packages: Sequence[str], root: Path) -> None:
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        archives = Path(folder, "archives")
        download(packages, archives)
        part = root.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        for package in sorted(archives.glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(part)])
        part.rename(root)


def _run(argv: list[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_SECONDS_APT_MAY_TAKE,
        )
    except subprocess.TimeoutExpired as error:
        raise NoPackages(f"{argv[0]} {argv[-1]} took more than {_SECONDS_APT_MAY_TAKE:.0f} s") from error
    if done.returncode:
        raise NoPackages(f"{argv[0]} ... {argv[-1]} ended with {done.returncode}: {done.stdout[-600:]}")
