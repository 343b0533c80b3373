"""Task images from untrusted bytes: typed by content, bounded before decoding, decoded once to prove they are whole.

A valid still PNG, JPEG or WEBP is kept byte for byte, so that a hash of ours is a hash of the original. Everything else
Pillow can read (GIF, BMP, TIFF, animations) becomes a PNG of its first frame. EXIF orientation is not applied: model,
sandbox and page see the stored pixels, as the benchmarks' authors did.
"""

import hashlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

MAX_PIXELS = 64_000_000
"""Checked on the header, before a pixel is decoded. Four times the largest BabyVision-like picture (4000x4000)."""

KEPT_FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
READ_FORMATS = (*KEPT_FORMATS, "GIF", "BMP", "TIFF")
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


@dataclass(frozen=True)
class PreparedImage:
    """An image that is known to be whole, small enough and of a type that models accept."""

    content: bytes
    media_type: str
    """By content: "image/png", "image/jpeg" or "image/webp"."""
    width: int
    height: int
    sha256: str

    @classmethod
    def from_bytes(cls, content: bytes, *, row: str, max_pixels: int = MAX_PIXELS) -> "PreparedImage":
        """Raises ValueError, which begins with `row`, for what is no image, is cut short or has too many pixels."""
        try:
            with _decoded(content, max_pixels) as image:
                media_type = KEPT_FORMATS.get(image.format or "")
                if media_type is None or getattr(image, "n_frames", 1) > 1:
                    content, media_type = png_of(image), "image/png"
                width, height = image.size
        except UnidentifiedImageError as error:  # its own message names an object of ours
            what = f"begins with {content[:8]!r}, like no {', '.join(READ_FORMATS[:-1])} or {READ_FORMATS[-1]}"
            raise ValueError(f"{row}: image of {len(content)} bytes: {what}") from error
        except Exception as error:
            raise ValueError(f"{row}: image of {len(content)} bytes: {error}") from error
        return cls(content, media_type, width, height, hashlib.sha256(content).hexdigest())


@contextmanager
def _decoded(content: bytes, max_pixels: int) -> Iterator[Image.Image]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of size (checked here) and of odd metadata (not used)
        with Image.open(io.BytesIO(content), formats=READ_FORMATS) as header:
            width, height = header.size
            if width * height > max_pixels:
                raise ValueError(f"{width}x{height} pixels are more than {max_pixels}")
            header.verify()  # a PNG's checksums and end, which decoding does not look at
        with Image.open(io.BytesIO(content), formats=READ_FORMATS) as image:
            image.load()
            yield image


def png_of(image: Image.Image) -> bytes:
    """The PNG of a picture, with nothing but pixels in it."""
    still = image if image.mode in _PNG_MODES else image.convert("RGBA" if image.has_transparency_data else "RGB")
    png = io.BytesIO()
    still.save(png, "PNG", exif=b"")
    return png.getvalue()
