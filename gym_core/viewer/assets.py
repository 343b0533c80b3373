"""The files of the page, which are part of this package: looked up in a list, never by path."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("page")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    content: bytes
    media_type: str

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:24]}"'


@cache
def page_files() -> dict[str, PageFile]:
    return {
        path.name: PageFile(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(FOLDER.iterdir())
        if path.suffix in _TYPES
    }


def page_file(name: str) -> PageFile | None:
    return page_files().get(name)
