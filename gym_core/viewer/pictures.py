"""Pictures for a browser: found by hash alone, of raster formats alone, each with its size and a URL that opens it.

A page cannot put a token into an `<img>`. So the URL of a picture holds a key that is good for this picture alone, and
only the API, which wants the token, gives URLs away.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from gym_core.capture.images import AssetStore, sniff_media_type
from gym_core.capture.placeholders import read_size
from gym_core.viewer.plain_file import open_plain
from gym_core.viewer.types import Picture

SHOWN_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
"""What browsers draw and what holds no script. Never SVG."""
_HEAD_BYTES = 16

UrlOf = Callable[[str], str]
"""SHA-256 to the URL of the picture."""


def picture_key(secret: bytes, run: str, sha256: str) -> str:
    return hmac.new(secret, f"{run}/{sha256}".encode(), hashlib.sha256).hexdigest()[:32]


@dataclass
class Gallery:
    """The pictures of one rollout: each is looked at once."""

    assets: AssetStore
    url_of: UrlOf
    received: frozenset[str] | None
    """What model calls held; None when that is not known."""
    _known: dict[str, Picture] = field(default_factory=dict)

    def picture(self, sha256: str) -> Picture:
        """Of one that is missing or no picture, too: its `problem` says so."""
        if sha256 not in self._known:
            seen = None if self.received is None else sha256 in self.received
            found = look_at(self.assets, sha256)
            url = "" if found.problem else self.url_of(sha256)
            self._known[sha256] = found.model_copy(update={"seen": seen, "url": url})
        return self._known[sha256]

    def all(self) -> list[Picture]:
        """In the order in which they were asked for."""
        return list(self._known.values())


def look_at(assets: AssetStore, sha256: str) -> Picture:
    """What the head of its file says, without a URL. Of one that is missing or no picture, `problem` says so."""
    try:
        path = assets.path(sha256)
        with open_plain(path) as file:
            media_type = sniff_media_type(file.read(_HEAD_BYTES))
        size, (width, height) = path.stat().st_size, read_size(path)
    except FileNotFoundError:
        return _unshown(sha256, "the file is not in the assets folder")
    except (OSError, ValueError) as error:
        return _unshown(sha256, f"no picture: {str(error)[:200]}")
    if media_type not in SHOWN_TYPES:
        return _unshown(sha256, f"a browser does not show {media_type or 'this'}")
    return Picture(sha256=sha256, url="", width=width, height=height, bytes=size, seen=None)


def _unshown(sha256: str, problem: str) -> Picture:
    return Picture(sha256=sha256[:64], url="", width=0, height=0, bytes=0, seen=None, problem=problem)
