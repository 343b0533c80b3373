"""The pictures of a sequence as a sample lists them: what each file is, and where its placeholders stand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gym_core.capture.images import AssetStore, sniff_media_type
from gym_core.capture.sequences import Piece
from gym_core.export.mask import MaskReason
from gym_core.types.model_call import ImageTokens
from gym_core.types.sample import SampleImage

_HEAD_BYTES = 16


@dataclass(frozen=True)
class PlacedPictures:
    images: Sequence[SampleImage]
    mask_reason: MaskReason | None
    """Why the sequence is not for training; None when its pictures are all there and in their places."""


def place_pictures(piece: Piece, assets: AssetStore, tokens: ImageTokens | None) -> PlacedPictures:
    """Reads the head of each picture's file."""
    images = list(_listed(piece, assets))
    missing = any(not image.media_type for image in images)
    return PlacedPictures(images, MaskReason.IMAGE_MISSING if missing else None)


def _listed(piece: Piece, assets: AssetStore) -> Iterator[SampleImage]:
    known: dict[str, tuple[str, int, int]] = {}
    for image in piece.images:
        if image.sha256 not in known:
            known[image.sha256] = _read_head(assets, image.sha256)
        media_type, width, height = known[image.sha256]
        yield SampleImage(sha256=image.sha256, media_type=media_type, width=width, height=height, call_id=image.call_id)


def _read_head(assets: AssetStore, sha256: str) -> tuple[str, int, int]:
    """Media type, width and height; "", 0 and 0 for a picture that is not there or is none."""
    try:
        path = assets.path(sha256)
        return _media_type(path), *_size(path)
    except (OSError, ValueError, Image.DecompressionBombError):
        return "", 0, 0


def _media_type(path: Path) -> str:
    with path.open("rb") as file:
        return sniff_media_type(file.read(_HEAD_BYTES)) or ""


def _size(path: Path) -> tuple[int, int]:
    """Raises OSError, of which UnidentifiedImageError is one."""
    with Image.open(path) as image:
        return image.size
