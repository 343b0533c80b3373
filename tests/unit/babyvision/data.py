"""Files of BabyVision's schema, drawn for the tests: choice and blank rows, each kind of picture."""

import functools
import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from gym_core.types.wire import JsonObject

SOLUTION = "the annotator's secret solution"


def picture(image_format: str, size: tuple[int, int] = (40, 30), colour: str = "teal") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, image_format)
    return file.getvalue()


def blank_row(task_id: int, answer: str, image: bytes | None, name: str, **fields: object) -> JsonObject:
    row: JsonObject = {
        "taskId": task_id,
        "type": "Visual Tracking",
        "subtype": "Maze",
        "image": {"bytes": image, "path": name},
        "question": "How many steps? Answer with a number.",
        "ansType": "blank",
        "options": [],
        "choiceAns": None,
        "blankAns": answer,
        "coT": SOLUTION,
    }
    return row | fields


def choice_row(task_id: int, index: int, image: bytes, name: str, **fields: object) -> JsonObject:
    choice = {"ansType": "choice", "options": ["The left", "The right"], "choiceAns": index, "blankAns": "null"}
    return blank_row(task_id, "", image, name) | choice | fields


@functools.cache
def good_rows() -> list[JsonObject]:
    return [
        blank_row(362, "gold-8−5=3", picture("PNG"), "a.png"),
        choice_row(8343, 1, picture("JPEG"), "b.jpg"),
        blank_row(500, "gold-59", picture("JPEG", colour="red"), "jpeg_inside.png"),
        choice_row(501, 0, picture("PNG", (4000, 4000)), "large.png"),
    ]


def write_parquet(rows: list[JsonObject], path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_zip(rows: list[JsonObject], path: Path) -> Path:
    """The official zip's layout."""
    with zipfile.ZipFile(path, "w") as archive:
        lines = []
        for row in rows:
            name = f"images/{row['image']['path']}"
            archive.writestr(f"babyvision_data/{name}", row["image"]["bytes"])
            lines.append(json.dumps(row | {"image": name, "status": "ok"}, ensure_ascii=False))
        archive.writestr("babyvision_data/meta_data.jsonl", "\n".join(lines) + "\n")
    return path
