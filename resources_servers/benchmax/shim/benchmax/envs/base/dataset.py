"""Examples out of a JSONL file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from benchmax.envs.dataset import Dataset, validate_max_examples
from benchmax.envs.shared_types import Example

PayloadT = TypeVar("PayloadT")

JsonRow = dict[str, Any]  # Any: JSON of the environment's own shape


class JsonlDataset(Dataset[PayloadT]):
    """One JSON object a line, blank ones left out; `row_to_example` makes an example of each."""

    def __init__(
        self,
        path: str | Path,
        *,
        row_to_example: Callable[[JsonRow], Example[PayloadT]],
        max_examples: int | None = None,
    ) -> None:
        """Raises ValueError and TypeError naming file and line."""
        validate_max_examples(max_examples)
        examples: list[Example[PayloadT]] = []
        with Path(path).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if max_examples is not None and len(examples) >= max_examples:
                    break
                if line.strip():
                    examples.append(_example(line, f"{path}:{number}", row_to_example))
        super().__init__(examples)


def _example(line: str, where: str, row_to_example: Callable[[JsonRow], Example[PayloadT]]) -> Example[PayloadT]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: no JSON: {error.msg}") from error
    if not isinstance(row, dict):
        raise TypeError(f"{where}: a {type(row).__name__} is no JSON object")
    try:
        found = row_to_example(row)
    except Exception as error:
        error.add_note(f"while {where} was read")
        raise
    if not isinstance(found, Example):
        raise TypeError(f"{where}: row_to_example made a {type(found).__name__} and no Example")
    return found


def resolve_dataset_path(base_dir: Path, relative_path: str) -> Path:
    """A path under `base_dir`. Raises ValueError for one that is absolute or leads out of it."""
    root = base_dir.expanduser().resolve()
    found = (root / relative_path).resolve()
    if Path(relative_path).is_absolute() or not found.is_relative_to(root):
        raise ValueError(f"dataset path {relative_path!r} must be relative to base_dir and stay in it")
    return found
