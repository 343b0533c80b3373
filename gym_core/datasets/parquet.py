"""Rows of a Parquet file, a few at a time. The only user of pyarrow for reading."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gym_core.types.wire import JsonObject

_ROWS_AT_A_TIME = 16
"""Rows may carry pictures of many megabytes."""


def read_parquet_rows(path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()) -> Iterator[JsonObject]:
    """Rows as objects of these columns alone, the optional ones where they are there.

    Raises ValueError naming the file and any column it lacks.
    """
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow.names
            missing = [name for name in columns if name not in there]
            if missing:
                raise ValueError(f"{path}: no column {missing}; it has {there}")
            wanted = [*columns, *(name for name in optional if name in there)]
            for batch in file.iter_batches(batch_size=_ROWS_AT_A_TIME, columns=wanted):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a readable Parquet file: {error}") from error
