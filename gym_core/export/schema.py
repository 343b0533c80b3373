"""The JSON Schema of a training sample, as the file in docs/: `make schema` writes it, and a test compares.

python -m gym_core.export.schema docs/training-sample.schema.json
"""

import json
import sys
from pathlib import Path

from gym_core.types.sample import TrainingSample
from gym_core.types.wire import JsonObject


def sample_schema() -> JsonObject:
    """Of one line of a JSONL export, and of `samples` in the lines of POST /v1/rollouts."""
    schema = TrainingSample.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    return json.dumps(sample_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text(), encoding="utf-8")
