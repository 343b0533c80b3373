"""JSONL and Parquet: samples as they are, for trainers and notebooks that read tables. The only user of pyarrow here.

A JSONL line is a `TrainingSample`. A Parquet row has the same fields: tokens as lists of int32, mask as int8,
log-probabilities as float32, pictures, calls and drift as structs, and open-ended objects (`sampling`) as JSON text.
"""

from pathlib import Path
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gym_core.export.schema import schema_text
from gym_core.types.sample import SAMPLE_SCHEMA_VERSION, TrainingSample
from gym_core.types.wire import JsonObject

_ROWS_A_GROUP = 64
"""About 130,000 tokens each: a row group of some 10 MB in memory."""
_BYTES_A_GROUP = 64 << 20
"""Inline pictures fill a group sooner."""

_IMAGE = pa.struct(
    [
        ("sha256", pa.string()),
        ("media_type", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("call_id", pa.string()),
        ("offset", pa.int32()),
        ("length", pa.int32()),
        ("grid_hw", pa.list_(pa.int32())),
        ("data_url", pa.string()),
    ]
)
_CALL = pa.struct(
    [
        ("call_id", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("is_trained", pa.bool_()),
        ("finish_reason", pa.string()),
        ("temperature", pa.float64()),
        ("policy_version", pa.int64()),
        ("policy_version_end", pa.int64()),
    ]
)
_DRIFT = pa.struct(
    [
        ("call_id", pa.string()),
        ("parent_call_id", pa.string()),
        ("position", pa.int32()),
        ("tokens", pa.int32()),
        ("sampled_tokens", pa.int32()),
        ("reason", pa.string()),
    ]
)
SAMPLE_SCHEMA = pa.schema(
    [
        ("schema_version", pa.int32()),
        ("sample_id", pa.string()),
        ("rollout_id", pa.string()),
        ("attempt", pa.int32()),
        ("task_id", pa.struct([("taskset", pa.string()), ("task_id", pa.string())])),
        ("task_index", pa.int64()),
        ("environment", pa.string()),
        ("advantage_group", pa.string()),
        ("repeat", pa.int32()),
        ("branch", pa.int32()),
        ("branch_label", pa.string()),
        ("piece", pa.int32()),
        ("token_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int8())),
        ("logprobs", pa.list_(pa.float32())),
        ("images", pa.list_(_IMAGE)),
        ("calls", pa.list_(_CALL)),
        ("drift", _DRIFT),
        ("reward", pa.float64()),
        ("reward_components", pa.map_(pa.string(), pa.float64())),
        ("advantage", pa.float64()),
        ("weight", pa.float64()),
        ("mask", pa.bool_()),
        ("mask_reason", pa.string()),
        ("is_truncated", pa.bool_()),
        ("logprobs_mode", pa.string()),
        ("sampling", pa.string()),
    ]
)
"""The fields of `TrainingSample`, in its order; a test holds the two together."""


class ParquetTable:
    """Samples into one Parquet file, a row group at a time."""

    def __init__(self, path: Path) -> None:
        """The file's metadata say which schema it has, as JSON Schema too. Raises OSError."""
        notes = {"gym.sample_schema_version": str(SAMPLE_SCHEMA_VERSION), "gym.sample_schema": schema_text()}
        self._writer = pq.ParquetWriter(path, SAMPLE_SCHEMA.with_metadata(notes), compression="zstd")
        self._rows: list[JsonObject] = []
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, sample: TrainingSample) -> None:
        self._rows.append(_row(sample))
        self._bytes += sum(len(image.data_url or "") for image in sample.images) + 9 * len(sample.token_ids)
        if len(self._rows) >= _ROWS_A_GROUP or self._bytes >= _BYTES_A_GROUP:
            self._flush()

    def close(self) -> None:
        """May be called twice."""
        if self._writer.is_open:
            self._flush()
            self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._writer.schema))
        self._rows, self._bytes = [], 0


def _row(sample: TrainingSample) -> JsonObject:
    row = sample.model_dump(mode="json")
    row["sampling"] = msgspec.json.encode(row["sampling"]).decode()
    row["reward_components"] = list(row["reward_components"].items())
    return row
