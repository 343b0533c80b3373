"""What a question is about: images, or videos with what is said of them. And the task row that a question becomes."""

import base64
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gym_core.datasets.images import PreparedImage
from gym_core.types.wire import JsonObject


@dataclass(frozen=True)
class ImageClue:
    prepared: PreparedImage


@dataclass(frozen=True)
class VideoFacts:
    width: int
    height: int
    frames: int
    fps: float

    @property
    def seconds(self) -> float:
        return self.frames / self.fps if self.fps else 0.0

    @classmethod
    def of_file(cls, path: Path) -> "VideoFacts":
        """Raises ValueError for what is no video, and saying what to install where PyAV is not."""
        try:
            from gym_core.datasets.video_reader import VideoReader
        except ImportError as error:
            raise ValueError("videos are read by PyAV: pip install 'visual-agent-gym[video]'") from error
        try:
            video = VideoReader(str(path))
            video[0], video[len(video) - 1]
        except (ValueError, OSError) as error:
            raise ValueError(f"video {path.name!r}: {error}") from error
        return cls(video.width, video.height, len(video), video.get_avg_fps())

    @classmethod
    def of_content(cls, content: bytes) -> "VideoFacts":
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            return cls.of_file(Path(file.name))


@dataclass(frozen=True)
class VideoClue:
    facts: VideoFacts
    named: JsonObject
    """What the row says of it: `{"url": ...}`, or `{"file": ..., "sha256": ...}` in a shared folder."""

    @classmethod
    def inline(cls, content: bytes, facts: VideoFacts) -> "VideoClue":
        return cls(facts, {"url": f"data:video/mp4;base64,{base64.b64encode(content).decode()}"})


@dataclass(frozen=True)
class Question:
    """One row before it is one."""

    id: str
    question: str
    answer: str
    ability: str
    data_source: str
    clues: tuple[ImageClue | VideoClue, ...]
    grader: Literal["match", "math", "judge"] | None = None
    """None: as the environment's configuration says for the data source."""
    answer_kind: str | None = None

    @property
    def images(self) -> list[ImageClue]:
        return [clue for clue in self.clues if isinstance(clue, ImageClue)]

    @property
    def videos(self) -> list[VideoClue]:
        return [clue for clue in self.clues if isinstance(clue, VideoClue)]


def row_of(question: Question, content: list[JsonObject], taskset: str) -> JsonObject:
    """The flat row: `content` is what the policy may see, the rest is for the environment."""
    return {
        "task_id": {"taskset": taskset, "task_id": question.id},
        "responses_create_params": {"input": [{"type": "message", "role": "user", "content": content}]},
        "question": question.question,
        "expected_answer": question.answer,
        "category": question.ability,
        "l2_category": question.data_source,
        "data_source": question.data_source,
        "grader": question.grader,
        "answer_kind": question.answer_kind,
        "videos": [video.named for video in question.videos],
    }
