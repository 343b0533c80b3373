"""Ten real problems of Geometry3K, and a Parquet file of them in the hub's form."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parents[2] / "data" / "geometry3k"


@dataclass(frozen=True)
class Problem:
    id: int
    text: str
    choices: tuple[str, ...]
    letter: str
    values: tuple[float, ...]
    """Of the choices, as the data set's authors worked them out."""
    png: bytes

    @property
    def gold(self) -> str:
        return self.choices[self.index]

    @property
    def index(self) -> int:
        return ord(self.letter) - ord("A")


def problems() -> list[Problem]:
    found = []
    for line in (FOLDER / "problems.jsonl").read_text().splitlines():
        row = json.loads(line)
        png = (FOLDER / row["image"]).read_bytes()
        values = tuple(row["precise_value"])
        found.append(Problem(row["id"], row["problem"], tuple(row["choices"]), row["answer"], values, png))
    return found


def data_uri(png: bytes) -> str:
    """With the media type that the hub's rows have."""
    return f"data:image/None;base64,{base64.b64encode(png).decode()}"


def write_parquet(path: Path, rows: list[dict[str, object]] | None = None) -> Path:
    """Of the ten problems, or of other rows."""
    if rows is None:
        rows = [{"problem": f"<image>{p.text}", "answer": p.gold, "images": [data_uri(p.png)]} for p in problems()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path
