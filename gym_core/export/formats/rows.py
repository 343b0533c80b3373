"""Flat rows of rollouts as CSV or Parquet. CSV is safe to open in a spreadsheet: no cell of it is a formula."""

import csv
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gym_core.export.rows import Cell, CellKind, RowTable
from gym_core.export.runs import published

_ROWS_A_GROUP = 4096
_FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")
"""What spreadsheets take a cell for a formula by; the full-width ones too, which some of them read as the others."""
_ARROW_TYPES = {
    CellKind.BOOL: pa.bool_(),
    CellKind.INT: pa.int64(),
    CellKind.FLOAT: pa.float64(),
    CellKind.TEXT: pa.string(),
}


class RowFormat(StrEnum):
    ROWS_CSV = "rows_csv"
    ROWS_PARQUET = "rows_parquet"


def write_rows(table: RowTable, path: Path, kind: RowFormat) -> int:
    """The number of rows. The file is there whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with published(path) as partial:
        return _write_csv(table, partial) if kind is RowFormat.ROWS_CSV else _write_parquet(table, partial)


def safe_cell(cell: Cell) -> str:
    """A CSV cell. Text that a spreadsheet would take for a formula gets an apostrophe before it; null is empty."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell
    return repr(cell)


def _write_csv(table: RowTable, path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([safe_cell(column.name) for column in table.columns])
        for row in table.rows():
            writer.writerow(map(safe_cell, row))
            count += 1
    return count


def _write_parquet(table: RowTable, path: Path) -> int:
    schema = pa.schema([(column.name, _ARROW_TYPES[column.kind]) for column in table.columns])
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(table):
            cells = zip(*group, strict=True)
            columns = [pa.array(c, type=t) for c, t in zip(cells, schema.types, strict=True)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            count += len(group)
    return count


def _groups(table: RowTable) -> Iterator[list[list[Cell]]]:
    group: list[list[Cell]] = []
    for row in table.rows():
        group.append(row)
        if len(group) == _ROWS_A_GROUP:
            yield group
            group = []
    if group:
        yield group
