"""The pictures of a sequence as a sample lists them: what each file is, and where its placeholders stand."""

import hashlib
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gym_core.capture.images import AssetStore, sniff_media_type
from gym_core.capture.placeholders import ImageProblem, Picture, Placement, place_images, read_size
from gym_core.capture.sequences import Piece
from gym_core.types.model_call import ImageTokens
from gym_core.types.sample import SampleImage

_HEAD_BYTES = 16
_REMEMBERED = 1 << 14
"""Files whose content was checked in this process."""


@dataclass(frozen=True)
class PlacedPictures:
    images: Sequence[SampleImage]
    problem: ImageProblem | None
    """Why the sequence is not for training; None when nothing is known to be wrong with its pictures."""


@dataclass(frozen=True)
class PictureFile:
    """What the head of a picture's file says; its whole content is what its name says."""

    media_type: str
    picture: Picture


def place_pictures(piece: Piece, assets: AssetStore, tokens: ImageTokens | None) -> PlacedPictures:
    """Reads and hashes each picture's file once a process: about 1 ms for 2 MB.

    Without `tokens` nobody knows what a placeholder is: the pictures are listed without their places, and only one
    that is missing or damaged is a problem.
    """
    files = {sha256: read_picture(assets, sha256) for sha256 in {image.sha256 for image in piece.images}}
    found = [files[image.sha256] for image in piece.images]
    if tokens is None:
        problem = ImageProblem.MISSING if None in found else None
        placement = Placement((None,) * len(found), problem)
    else:
        sampled = [(span.start, span.end) for span in piece.spans]
        placement = place_images(
            piece.token_ids, [file.picture if file else None for file in found], tokens, sampled=sampled
        )
    return PlacedPictures([_listed(piece, n, found[n], placement) for n in range(len(found))], placement.problem)


def _listed(piece: Piece, number: int, file: PictureFile | None, placement: Placement) -> SampleImage:
    image, place = piece.images[number], placement.places[number]
    return SampleImage(
        sha256=image.sha256,
        media_type=file.media_type if file else "",
        width=file.picture.width if file else 0,
        height=file.picture.height if file else 0,
        call_id=image.call_id,
        offset=place.offset if place else None,
        length=place.length if place else None,
        grid_hw=place.grid_hw if place else None,
    )


def read_picture(assets: AssetStore, sha256: str) -> PictureFile | None:
    """None for a picture that is not there, is none, or has other bytes than its name says."""
    try:
        path = assets.path(sha256)
        found = path.stat()
        return _read_file(path, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
    except (OSError, ValueError):
        return None


@lru_cache(_REMEMBERED)
def _read_file(path: Path, size: int, mtime_ns: int) -> PictureFile | None:
    """A file of another size or time is another one. None for damage. Raises OSError and ValueError."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != path.name:
            return None
    return PictureFile(_media_type(path), Picture(path.name, *read_size(path)))


def _media_type(path: Path) -> str:
    """Raises OSError and ValueError."""
    with path.open("rb") as file:
        media_type = sniff_media_type(file.read(_HEAD_BYTES))
    if media_type is None:
        raise ValueError(f"picture {path.name} is of no known type")
    return media_type
