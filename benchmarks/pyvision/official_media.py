"""Images and videos that rows name by a path: files of one folder, as the environment takes them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.pyvision.clues import ImageClue, VideoClue, VideoFacts
from gym_core.capture.images import sniff_media_type
from gym_core.datasets.digest import sha256_of
from gym_core.datasets.images import PreparedImage
from gym_core.types.wire import JsonObject

Clues = Literal["images", "videos"]
MAX_CLUES: dict[Clues, int] = {"images": 32, "videos": 8}
"""Of a row: of images a rollout has no budget for more, and videos the environment's server takes no more of."""
MAX_NAME_CHARS = 400
_MAX_IMAGE_BYTES = 32 << 20
_SHARED_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. +=@()-]{0,199}")
"""Of a path that the environment's server takes for a shared file."""


@dataclass(frozen=True)
class MediaFolder:
    path: Path
    clues: Clues
    inline_bytes: int
    """A video of more is not put into its row but named, with its SHA-256."""

    def read(self, names: Sequence[str]) -> Iterator[ImageClue | VideoClue]:
        """Raises ValueError for a file that is not there, outside of the folder, or not what it should be."""
        for name in names:
            path = self._inside(name)
            yield _image(name, path) if self.clues == "images" else self._video(name, path)

    def _inside(self, name: str) -> Path:
        try:
            path, root = (self.path / name).resolve(), self.path.resolve()
            is_inside, is_file = path.is_relative_to(root), path.is_file()
        except (OSError, ValueError) as error:  # ValueError: a zero byte
            raise ValueError(f"{name[:80]!r} is no path of a file") from error
        if not is_inside:
            raise ValueError(f"{name[:200]!r} leads out of {str(self.path)!r}")
        if not is_file:
            raise ValueError(f"no file {name[:200]!r} in {str(self.path)!r}")
        return path

    def _video(self, name: str, path: Path) -> VideoClue:
        with path.open("rb") as file:
            media_type = sniff_media_type(file.read(16))
        if media_type not in (None, "image/gif"):
            raise ValueError(f"video {name[:200]!r} is a picture: {media_type}")
        facts = VideoFacts.of_file(path)
        if path.stat().st_size <= self.inline_bytes:
            return VideoClue.inline(path.read_bytes(), facts)
        file_name = path.relative_to(self.path.resolve()).as_posix()
        if len(file_name) > MAX_NAME_CHARS or not all(map(_SHARED_SEGMENT.fullmatch, file_name.split("/"))):
            raise ValueError(
                f"video {file_name[:200]!r} is too large for its row (prepare_args.inline_mib), and a file that is "
                "shared with the sandboxes has a plain name: rename it to letters, digits and _. +=@()- that do not "
                "begin with a dot"
            )
        named: JsonObject = {"file": file_name, "sha256": sha256_of(path)}
        return VideoClue(facts, named)


def _image(name: str, path: Path) -> ImageClue:
    if path.stat().st_size > _MAX_IMAGE_BYTES:
        raise ValueError(f"image {name[:200]!r} is larger than {_MAX_IMAGE_BYTES >> 20} MiB")
    return ImageClue(PreparedImage.from_bytes(path.read_bytes(), row=f"image {name[:200]!r}"))
