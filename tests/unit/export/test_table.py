"""Samples to Parquet and back."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.export.formats.table import SAMPLE_SCHEMA, ParquetTable
from gym_core.export.schema import sample_schema
from gym_core.types.sample import TrainingSample
from tests.fakes.samples import FakeTurn, make_sample, samples


def written(path: Path, batch: list[TrainingSample]) -> pa.Table:
    with ParquetTable(path) as table:
        for sample in batch:
            table.append(sample)
    return pq.read_table(path)


def read_back(table: pa.Table) -> list[TrainingSample]:
    rows = table.to_pylist()
    for row in rows:
        row["sampling"] = json.loads(row["sampling"])
        row["reward_components"] = dict(row["reward_components"])
    return [TrainingSample.model_validate(row) for row in rows]


@settings(max_examples=30, deadline=None)
@given(st.lists(samples(), max_size=4))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, batch: list[TrainingSample]) -> None:
    assert read_back(written(tmp_path_factory.mktemp("table") / "t.parquet", batch)) == batch


def test_the_columns_are_the_fields_of_a_sample() -> None:
    assert SAMPLE_SCHEMA.names == list(TrainingSample.model_fields)


def test_tokens_are_narrow(tmp_path: Path) -> None:
    schema = written(tmp_path / "t.parquet", [make_sample([FakeTurn()])]).schema
    assert schema.field("token_ids").type.value_type == pa.int32()
    assert schema.field("loss_mask").type.value_type == pa.int8()
    assert schema.field("logprobs").type.value_type == pa.float32()


def test_the_file_says_what_its_rows_are(tmp_path: Path) -> None:
    written(tmp_path / "t.parquet", [make_sample([FakeTurn()])])
    notes = pq.read_schema(tmp_path / "t.parquet").metadata
    assert notes[b"gym.sample_schema_version"] == b"1"
    assert json.loads(notes[b"gym.sample_schema"]) == sample_schema()


def test_an_export_of_many_samples_is_several_row_groups(tmp_path: Path) -> None:
    written(tmp_path / "t.parquet", [make_sample([FakeTurn()], sample_id=str(n)) for n in range(70)])
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 2
