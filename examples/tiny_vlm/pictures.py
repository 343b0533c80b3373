"""Pictures as the model takes them: data URLs in, patches out."""

import base64
import binascii
import hashlib
import io
from dataclasses import dataclass

import torch
from PIL import Image, UnidentifiedImageError
from safetensors import SafetensorError
from safetensors.torch import load, save
from transformers import Qwen2VLImageProcessorPil

from examples.tiny_vlm.errors import BadRequest

MAX_PICTURE_BYTES = 32 * 2**20
MAX_PICTURE_PIXELS = 50_000_000


@dataclass(frozen=True)
class Picture:
    """One picture, preprocessed."""

    digest: str
    """SHA-256 of its patches: equal exactly when the model sees the same."""
    patches: torch.Tensor
    """Float32, [patches, values of a patch]."""
    grid: tuple[int, int, int]
    """Patches in time, height and width."""
    tokens: int
    """Placeholder tokens it takes: patches of its grid over the square of the merge size."""


class PictureReader:
    """Turns what a request carries into pictures, the way the model's own processor does."""

    def __init__(self, processor: Qwen2VLImageProcessorPil) -> None:
        self._processor = processor

    def read_url(self, url: str) -> Picture:
        """Raises BadRequest unless it is a data URL of a picture of bearable size."""
        head, _, payload = url.partition(",")
        if not head.startswith("data:") or not head.endswith(";base64"):
            raise BadRequest(f"Only base64 data URLs are read here, and this is {head[:40]!r}")
        if len(payload) > MAX_PICTURE_BYTES * 4 // 3 + 4:
            raise BadRequest(f"Picture of more than {MAX_PICTURE_BYTES} bytes")
        try:
            picture = Image.open(io.BytesIO(base64.b64decode(payload, validate=True)))
            if picture.width * picture.height > MAX_PICTURE_PIXELS:
                raise BadRequest(f"Picture of {picture.width}x{picture.height} pixels")
            pixels = picture.convert("RGB")
            processed = self._processor(images=[pixels], return_tensors="pt")
        except (binascii.Error, UnidentifiedImageError, OSError, ValueError) as error:
            raise BadRequest(f"Failed to load image: {error}") from error
        return self._picture(processed["pixel_values"], processed["image_grid_thw"])

    def unpack(self, packed: str) -> Picture:
        """What `pack` made. Raises BadRequest for anything else."""
        try:
            tensors = load(base64.b64decode(packed, validate=True))
            return self._picture(tensors["pixel_values"], tensors["image_grid_thw"])
        except (binascii.Error, SafetensorError, KeyError, IndexError) as error:
            raise BadRequest(f"kwargs_data was not made by /v1/chat/completions/render here: {error}") from error

    def _picture(self, patches: torch.Tensor, grids: torch.Tensor) -> Picture:
        time, height, width = (int(side) for side in grids[0])
        if time * height * width != patches.shape[0]:
            raise BadRequest(f"{patches.shape[0]} patches for a grid of {time}x{height}x{width}")
        digest = hashlib.sha256(patches.numpy().tobytes()).hexdigest()
        tokens = time * height * width // self._processor.merge_size**2
        return Picture(digest, patches, (time, height, width), tokens)


def pack(picture: Picture) -> str:
    """The picture as text that `PictureReader.unpack` reads."""
    tensors = {"pixel_values": picture.patches, "image_grid_thw": torch.tensor([picture.grid])}
    return base64.b64encode(save(tensors)).decode()
