"""One file of a data set on the Hugging Face hub, fetched once and known again by its SHA-256.

The hash of a file that nobody published one for is recorded when it is first seen; another file under the same name is
an error from then on.
"""

import json
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from gym_core.datasets.digest import sha256_of
from gym_core.types.wire import Wire

HUB_VARIABLE = "HF_ENDPOINT"
"""Base URL of a mirror of the hub."""
HUB = "https://huggingface.co"

READ_TIMEOUT_S = 60.0
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class HubFile:
    dataset: str
    """"owner/name"."""
    revision: str
    """A commit; or a branch, whose file may change: the lock tells."""
    path: str
    max_bytes: int

    @property
    def origin(self) -> str:
        return f"hub:{self.dataset}@{self.revision}/{self.path}"


class HashLock(Wire):
    """`<name>.lock.json`: what each origin gave when it was first seen."""

    sha256_of_origin: dict[str, str] = {}


def fetch_hub_file(file: HubFile, path: Path, *, hub: str) -> None:
    """Download to `path`, where it appears whole or not at all. Raises ValueError saying what failed."""
    url = f"{hub.rstrip('/')}/datasets/{file.dataset}/resolve/{file.revision}/{file.path}"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with urllib.request.urlopen(url, timeout=READ_TIMEOUT_S) as reply, partial.open("wb") as content:
            expected = reply.headers.get("Content-Length")
            while chunk := reply.read(_CHUNK_BYTES):
                content.write(chunk)
                if content.tell() > file.max_bytes:
                    raise ValueError(f"more than {file.max_bytes} bytes came")
            if expected is not None and content.tell() != int(expected):
                raise ValueError(f"{content.tell()} of {expected} bytes came")
        partial.replace(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"download of {url} failed: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def check_lock(origin: str, path: Path, lock_path: Path) -> str:
    """The SHA-256 of a file that is the one seen before from this origin, or the first. Raises ValueError."""
    sha256 = sha256_of(path)
    lock = HashLock.model_validate_json(lock_path.read_bytes()) if lock_path.is_file() else HashLock()
    known = lock.sha256_of_origin.get(origin)
    if known is None:
        grown = HashLock(sha256_of_origin={**lock.sha256_of_origin, origin: sha256})
        lock_path.parent.mkdir(parents=True, exist_ok=True)
        partial = lock_path.with_name(f".{lock_path.name}.{os.getpid()}")
        partial.write_text(json.dumps(grown.model_dump(), indent=2) + "\n")
        partial.replace(lock_path)
    elif known != sha256:
        raise ValueError(
            f"{str(path)!r} is not the file seen before: its SHA-256 is {sha256}, the lock has {known}. If the new one"
            f" is right, delete {str(lock_path)!r} and prepare again"
        )
    return sha256
