"""The pictures of a body, made ready for OpenCode: decoded once, in a form that models take, under constant names.

OpenCode ends before the first call on a picture it cannot decode, and drops others silently; so what is wrong with one
is found here, where it names the task.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gym_core.capture.images import parse_data_url
from gym_core.datasets.images import PreparedImage
from gym_core.errors import InvalidTask, boundary
from gym_core.types.responses import InputImage, ResponsesBody

_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}


@dataclass(frozen=True)
class NamedImage:
    name: str
    content: bytes


def named_images(body: ResponsesBody, taken: Collection[str] = ()) -> list[NamedImage]:
    """The last user message's images as `image.png`, or `image_1.png`, `image_2.jpg`, ... when there are several.

    `taken` names files that lie there already; with one of those names in the way all begin with `task_`. Decodes: run
    it in a thread. Raises InvalidTask.
    """
    with boundary(InvalidTask, "images of the task"):
        urls = [part.image_url for part in body.user_parts() if isinstance(part, InputImage)]
        prepared = [
            PreparedImage.from_bytes(parse_data_url(url), row=f"image {number}")
            for number, url in enumerate(urls, start=1)
        ]
    names = _names(prepared)
    if not set(names).isdisjoint(taken):
        names = [f"task_{name}" for name in names]
    return [NamedImage(name, image.content) for name, image in zip(names, prepared, strict=True)]


def _names(images: Sequence[PreparedImage]) -> list[str]:
    endings = [_ENDINGS[image.media_type] for image in images]
    if len(endings) == 1:
        return [f"image.{endings[0]}"]
    return [f"image_{number}.{ending}" for number, ending in enumerate(endings, start=1)]
