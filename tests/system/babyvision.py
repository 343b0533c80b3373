"""BabyVision's schema in small: eight rows of every kind, and what policy and judge are to do about each."""

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from gym_core.types.wire import JsonObject
from tests.system.endpoints import Case

SOLUTION = "the-annotators-own-solution-4c1"
CROP = (
    "python3 -c \"import glob; from PIL import Image; p = glob.glob('*.png') + glob.glob('*.jpg'); "
    "i = Image.open(p[0]); print(i.size); i.crop((0, 0, 8, 8)).save('crop.png')\""
)


@dataclass(frozen=True)
class Row:
    """A puzzle, its play and what must come of it."""

    task_id: int
    gold: str
    case: Case
    reward: float | None
    image: bytes
    image_name: str = "image.png"
    failure_kind: str | None = None
    is_judged: bool = True
    options: tuple[str, ...] = ()

    def fields(self) -> JsonObject:
        """As BabyVision writes it."""
        is_choice = bool(self.options)
        return {
            "taskId": self.task_id,
            "type": "Visual Tracking" if self.task_id % 2 else "Spatial Perception",
            "subtype": "Maze" if self.task_id % 2 else "3D Views",
            "image": {"bytes": self.image, "path": self.image_name},
            "question": f"{self.case.phrase} What does the picture hide?",
            "ansType": "choice" if is_choice else "blank",
            "options": list(self.options),
            "choiceAns": "ABCD".index(self.gold) if is_choice else None,
            "blankAns": "null" if is_choice else self.gold,
            "coT": f"{SOLUTION} for {self.task_id}",
        }


@functools.cache
def rows() -> tuple[Row, ...]:
    return (
        Row(101, "gold-41-right", _case(101, "\\boxed{gold-41-right}", commands=(CROP,)), 1.0, drawn("PNG", 1)),
        Row(102, "gold-42-wrong", _case(102, "\\boxed{forty-three}"), 0.0, drawn("JPEG", 2), "image.jpg"),
        Row(
            103, "gold-43-silent", _case(103, "I cannot tell."), 0.0, drawn("PNG", 3),
            failure_kind="no_final_answer", is_judged=False,
        ),
        Row(
            104, "gold-44-cut", _case(104, "I was about to say", finish_reason="length"), 0.0, drawn("PNG", 4),
            failure_kind="output_cap", is_judged=False,
        ),
        Row(
            105, "B", _case(105, "It is \\boxed{B}", commands=(CROP,)), 1.0, drawn("JPEG", 5), "jpeg_inside.png",
            options=("left of it", "right of it", "above it"),
        ),
        Row(106, "gold-46-large", _case(106, "\\boxed{gold-46-large}"), 1.0, drawn("PNG", 6, side=4000)),
        Row(107, "gold-47-judge", _case(107, "\\boxed{forty-seven}", judge="nonsense"), None, drawn("PNG", 7),
            failure_kind="judge_failed"),
        Row(108, "gold-48-judge", _case(108, "\\boxed{forty-eight}", judge="fails"), None, drawn("PNG", 8),
            failure_kind="judge_failed"),
    )  # fmt: skip


def _case(task_id: int, says: str, **more: object) -> Case:
    return Case(f"Puzzle number {task_id}.", says, **more)  # type: ignore[arg-type]  # its own fields, passed on


def drawn(image_format: str, seed: int, *, side: int = 64) -> bytes:
    """A picture like no other."""
    colours = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(colours).resize((side, side), Image.Resampling.NEAREST).save(content, image_format)
    return content.getvalue()


def write_parquet(rows: Sequence[Row], path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist([row.fields() for row in rows]), path)
    return path
