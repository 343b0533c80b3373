"""The images of one session of a resources server: the prompt's first, then what tools made, in order and bounded."""

import hashlib
import io
from collections.abc import Sequence

from PIL import Image
from pydantic import Field

from gym_core.datasets.images import PreparedImage, png_of
from gym_core.errors import FailureKind, InvalidTask, SessionError
from gym_core.types.wire import Wire


class ShelfLimits(Wire):
    """`tool_images` of a resources server's block; all of one session."""

    max_images: int = Field(default=64, gt=0)
    max_bytes: int = Field(default=64 << 20, gt=0)
    """Of all images together, as files."""
    max_pixels: int = Field(default=16_000_000, gt=0)
    """Of one image."""


class ShelfFull(ValueError):
    """An image that does not fit any more, or is too large; the message is fit for a model."""


class ImageShelf:
    """Images by index from 0. Nothing is changed or taken away: a tool that edits makes another image."""

    def __init__(self, limits: ShelfLimits) -> None:
        self._limits = limits
        self._images: list[PreparedImage] = []
        self._bytes = 0
        self._given: list[str] = []
        """SHA-256 of each prompt image as it came, which may differ from the one that is kept."""
        self.prompt_count = 0
        """The first so many are the prompt's."""

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> PreparedImage:
        """Raises IndexError; negative indices count from the end."""
        return self._images[index]

    def picture(self, index: int) -> Image.Image:
        """A new decoded copy, for the caller to keep and change. Decodes: call it in a thread. Raises IndexError."""
        with Image.open(io.BytesIO(self._images[index].content)) as image:
            image.load()
            return image.copy()

    def put_prompt(self, index: int, content: bytes) -> None:
        """Put the prompt's image number `index`; again with the same bytes is fine. Decodes: call it in a thread.

        Raises InvalidTask for what is no image or does not fit, SessionError when it is out of order.
        """
        if index < self.prompt_count:
            if self._given[index] != hashlib.sha256(content).hexdigest():
                raise _out_of_order(f"image {index} is there already, and another one")
            return
        if index != len(self._images):
            raise _out_of_order(f"image {index} cannot follow {len(self._images)} images")
        try:
            prepared = PreparedImage.from_bytes(content, row=f"image {index}", max_pixels=self._limits.max_pixels)
            self._add([prepared])
        except ValueError as error:
            raise InvalidTask(str(error)) from error
        self._given.append(hashlib.sha256(content).hexdigest())
        self.prompt_count += 1

    def add(self, made: Sequence[Image.Image | bytes]) -> list[int]:
        """Put what a tool made, all of it or nothing; the indices. Encodes and decodes: call it in a thread.

        Raises ShelfFull, and ValueError for bytes that are no image.
        """
        first = len(self._images)
        self._add([self._prepared(image) for image in made])
        return list(range(first, len(self._images)))

    def _prepared(self, image: Image.Image | bytes) -> PreparedImage:
        if isinstance(image, Image.Image):
            self._check_pixels(image.width, image.height)
            image = png_of(image)
        return PreparedImage.from_bytes(image, row="image of a tool")

    def _add(self, images: Sequence[PreparedImage]) -> None:
        for image in images:
            self._check_pixels(image.width, image.height)
        if len(self._images) + len(images) > self._limits.max_images:
            raise ShelfFull(f"this session already holds {len(self._images)} images, and no more fit")
        more_bytes = sum(len(image.content) for image in images)
        if self._bytes + more_bytes > self._limits.max_bytes:
            raise ShelfFull("the images of this session are too large together: no more fit")
        self._images.extend(images)
        self._bytes += more_bytes

    def _check_pixels(self, width: int, height: int) -> None:
        if width * height > self._limits.max_pixels:
            raise ShelfFull(f"an image of {width}x{height} pixels is too large: at most {self._limits.max_pixels}")


def _out_of_order(reason: str) -> SessionError:
    return SessionError(reason, kind=FailureKind.SESSION_CONFLICT)
