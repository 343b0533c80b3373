"""The published schema is the class's, and says what each field is."""

from pathlib import Path

import pytest

from gym_core.export.schema import sample_schema, schema_text

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "training-sample.schema.json"
OBVIOUS = {"schema_version", "rollout_id", "attempt", "task_id", "task_index", "environment", "repeat", "branch"}
"""Names that say it all."""


def test_the_published_schema_is_that_of_the_class() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == schema_text(), "run `make schema`"


@pytest.mark.parametrize("field", ["token_ids", "loss_mask", "logprobs"])
def test_the_arrays_have_their_shapes_and_types_in_the_schema(field: str) -> None:
    assert "[T]" in sample_schema()["properties"][field]["description"]


def test_fields_that_do_not_explain_themselves_are_described() -> None:
    bare = {name for name, field in sample_schema()["properties"].items() if "description" not in field}
    bare -= {name for name in bare if "$ref" in sample_schema()["properties"][name]}
    assert bare <= OBVIOUS
