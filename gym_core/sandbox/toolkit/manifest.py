"""manifest.json: what a finished toolkit holds, entry by entry, so that a change to any of it can be named."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True)
class Entry:
    kind: str
    """file, link, folder, or other."""
    mode: int
    """Permission bits; 0 for a link, which has none of its own."""
    size: int = 0
    """Bytes of a file."""
    content: str = ""
    """SHA-256 of a file, target of a link."""


@dataclass(frozen=True)
class Manifest:
    identity: str
    """Hash of what the toolkit was made of; its folder's name ends in the first 16 digits."""
    versions: dict[str, str]
    """opencode, python, and each Python package: what a run writes down as what ran."""
    entries: dict[str, Entry]
    """By path relative to the toolkit; the manifest itself is not among them."""

    @property
    def size_bytes(self) -> int:
        return sum(entry.size for entry in self.entries.values())


def scan(root: Path) -> dict[str, Entry]:
    """Every entry below `root` as it is now; reads every file."""
    return {str(path.relative_to(root)): _entry(path) for path in sorted(_walk(root)) if path != root / MANIFEST_NAME}


def write_manifest(root: Path, manifest: Manifest) -> None:
    path = root / MANIFEST_NAME
    path.write_text(json.dumps(asdict(manifest), indent=0, sort_keys=True) + "\n", "utf-8")
    path.chmod(0o644)


def read_manifest(root: Path) -> Manifest:
    """Raises FileNotFoundError when the toolkit is not there, ValueError when its manifest makes no sense."""
    content = json.loads((root / MANIFEST_NAME).read_text("utf-8"))
    try:
        entries = {path: Entry(**entry) for path, entry in content["entries"].items()}
        return Manifest(identity=content["identity"], versions=dict(content["versions"]), entries=entries)
    except (KeyError, TypeError, AttributeError) as cause:
        raise ValueError(f"{root / MANIFEST_NAME} is not a toolkit's manifest: {cause!r}") from cause


def describe(root: Path) -> str:
    """One line for people. Raises as `read_manifest`."""
    manifest = read_manifest(root)
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    return f"{root}: {versions}; {manifest.size_bytes / 2**20:.0f} MiB"


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        yield from (Path(folder, name) for name in (*folders, *files))


def _entry(path: Path) -> Entry:
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Entry("link", 0, content=str(path.readlink()))
    if stat.S_ISDIR(status.st_mode):
        return Entry("folder", mode)
    if not stat.S_ISREG(status.st_mode):
        return Entry("other", mode)
    with path.open("rb") as file:
        return Entry("file", mode, status.st_size, hashlib.file_digest(file, "sha256").hexdigest())
