"""Rows of a Parquet file, a few at a time. The only user of pyarrow for reading."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gym_core.types.wire import JsonObject

_ROWS_AT_A_TIME = 16
"""Rows may carry pictures of many megabytes."""


def read_parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[JsonObject]:
    """Rows as objects of these columns alone. Raises ValueError naming the file and any column it lacks."""
    try:
        with pq.ParquetFile(path) as file:
            missing = [name for name in columns if name not in file.schema_arrow.names]
            if missing:
                raise ValueError(f"{path}: no column {missing}; it has {file.schema_arrow.names}")
            for batch in file.iter_batches(batch_size=_ROWS_AT_A_TIME, columns=list(columns)):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a readable Parquet file: {error}") from error
