"""Pictures of training samples: found in assets folders, put into samples as data URLs, or copied beside an export."""

import io
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from PIL import Image

from gym_core.capture.images import AssetStore, parse_data_url
from gym_core.export.mask import MaskReason
from gym_core.types.sample import SampleImage, TrainingSample


class ImageMode(StrEnum):
    """How an export names its pictures."""

    REFERENCE = "reference"
    """By SHA-256: the files of that name in the run's own assets folder."""
    INLINE = "inline"
    """As data URLs in every sample that has them."""
    FILES = "files"
    """By SHA-256, and a copy of each in a folder beside the export."""


def with_data_urls(sample: TrainingSample, assets: AssetStore) -> TrainingSample:
    """The sample with each picture's bytes in it. One that is not there, or is damaged, masks it (image_missing).

    Reads and hashes every picture: about 3 ms a megabyte.
    """
    images = [_with_data_url(image, assets) for image in sample.images]
    changed: dict[str, object] = {"images": images}
    if sample.mask_reason is None and not all(image.data_url for image in images):
        changed |= {"mask": True, "mask_reason": MaskReason.IMAGE_MISSING.value}
    return sample.model_copy(update=changed)


def _with_data_url(image: SampleImage, assets: AssetStore) -> SampleImage:
    try:
        return image.model_copy(update={"data_url": assets.data_url(image.sha256)})
    except (OSError, ValueError):
        return image


def copy_images(samples: Sequence[TrainingSample], assets: AssetStore, folder: Path) -> None:
    """Copy the samples' pictures into a folder, each once, under the name that it has in the assets folder.

    Those that are not in the assets folder, or are damaged there, are left out. Raises OSError.
    """
    copies = AssetStore(folder)
    for sha256 in {image.sha256 for sample in samples for image in sample.images}:
        if copies.path(sha256).exists():
            continue
        with suppress(FileNotFoundError, ValueError):
            copies.put(assets.get(sha256))


def open_images(images: Sequence[SampleImage], assets: AssetStore) -> list[Image.Image]:
    """The decoded pictures in order, as trainers' processors take them. Raises FileNotFoundError and ValueError."""
    opened: list[Image.Image] = []
    for image in images:
        content = parse_data_url(image.data_url) if image.data_url else assets.get(image.sha256)
        decoded = Image.open(io.BytesIO(content))
        decoded.load()
        opened.append(decoded)
    return opened
