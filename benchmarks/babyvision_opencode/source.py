"""Where BabyVision comes from: a local copy, or the hub at a pinned revision; and the hashes that it must have.

The SHA-256 of the official zip is public. That of the hub's Parquet file is not, so the first copy seen is recorded in
a lock file and every later one must equal it: copies with the same 388 rows and re-encoded pictures are about.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gym_core.datasets.digest import sha256_of
from gym_core.datasets.hub import HUB, HUB_VARIABLE, HubFile, check_lock, fetch_hub_file
from gym_core.errors import ConfigError

LOCAL_COPY_VARIABLE = "BABYVISION_PARQUET"
"""Path of a local Parquet file, or of the official zip."""
DATASET = "UnipatAI/BabyVision"
REVISION = "849cbeea2b1d00ad334e9e1e2b49a1960c9ff3f3"
HUB_FILE = "data/train-00000-of-00001.parquet"
OFFICIAL_ROWS = 388
OFFICIAL_ZIP_SHA256 = "e5e16e7104b080bac7e67bb98d74bd5057f7151f487cd2f61991106253751e54"

MAX_SOURCE_BYTES = 512 << 20
"""Ten times the real file."""


class SourceKind(StrEnum):
    PARQUET = "parquet"
    ZIP = "zip"


@dataclass(frozen=True)
class Source:
    """A file that is there and is what it was before."""

    path: Path
    kind: SourceKind
    """By content, not by name."""
    origin: str
    """"hub:<dataset>@<revision>" or "local"."""
    revision: str | None
    """None for a local copy, whose revision nobody knows."""
    sha256: str


def find_source(data_dir: Path, *, zip_sha256: str = OFFICIAL_ZIP_SHA256, environ: Mapping[str, str]) -> Source:
    """The file to prepare from, verified. Raises ValueError saying what was found and what to do, ConfigError when
    the local copy is not there. A download is kept in `data_dir` and used again.
    """
    local = environ.get(LOCAL_COPY_VARIABLE)
    if local:
        source = _seen(_local_file(local), origin="local", revision=None)
    else:
        path = data_dir / f"babyvision-{REVISION[:12]}.parquet"
        if not path.is_file():
            _download(path, environ.get(HUB_VARIABLE) or HUB)
        source = _seen(path, origin=f"hub:{DATASET}@{REVISION}", revision=REVISION)
    if source.kind is SourceKind.ZIP:
        _check_zip(source, zip_sha256)
    else:
        _check_lock(source, data_dir / "babyvision.lock.json")
    return source


def local_fingerprint(environ: Mapping[str, str]) -> str:
    """Names the content of the local copy that is asked for, or says that it is not there; "" when none is."""
    local = environ.get(LOCAL_COPY_VARIABLE)
    if not local:
        return ""
    path = Path(local).expanduser()
    if not path.is_file():
        return f"no file {path}"
    return f"sha256:{sha256_of(path)}"


def _local_file(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(f"{LOCAL_COPY_VARIABLE}: {str(path)!r} is {'a folder' if path.is_dir() else 'no file'}")
    return path


def _seen(path: Path, *, origin: str, revision: str | None) -> Source:
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    kinds = {b"PAR1": SourceKind.PARQUET, b"PK\x03\x04": SourceKind.ZIP}
    if magic not in kinds:
        raise ValueError(f"BabyVision: {str(path)!r} is neither Parquet nor zip: it begins with {magic!r}")
    return Source(path=path, kind=kinds[magic], origin=origin, revision=revision, sha256=sha256)


def _check_zip(source: Source, zip_sha256: str) -> None:
    if source.sha256 != zip_sha256:
        raise ValueError(
            f"BabyVision: {str(source.path)!r} is not the official zip: its SHA-256 is {source.sha256}, not"
            f" {zip_sha256}. Fetch it again, or name another copy's hash in prepare_args.zip_sha256"
        )


def _check_lock(source: Source, lock_path: Path) -> None:
    try:
        check_lock(source.origin, source.path, lock_path)
    except ValueError as error:
        raise ValueError(f"BabyVision: {error}") from error


def _download(path: Path, hub: str) -> None:
    file = HubFile(DATASET, REVISION, HUB_FILE, MAX_SOURCE_BYTES)
    try:
        fetch_hub_file(file, path, hub=hub)
    except ValueError as error:
        raise ValueError(
            f"BabyVision: {error}. Without internet, set {LOCAL_COPY_VARIABLE} to a local copy of the Parquet file or"
            " of the official zip"
        ) from error
