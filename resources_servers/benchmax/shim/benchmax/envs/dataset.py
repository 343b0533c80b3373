"""A fixed, ordered collection of examples."""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from benchmax.envs.shared_types import Example

PayloadT = TypeVar("PayloadT")


class Dataset(Generic[PayloadT]):
    def __init__(self, examples: Sequence[Example[PayloadT]]) -> None:
        self._examples = tuple(examples)

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Example[PayloadT]:
        return self._examples[index]

    def __iter__(self) -> Iterator[Example[PayloadT]]:
        return iter(self._examples)


def validate_max_examples(max_examples: int | None) -> int | None:
    """Raises ValueError for what is neither None nor a whole number above 0."""
    if max_examples is not None and (type(max_examples) is not int or max_examples <= 0):
        raise ValueError(f"max_examples: {max_examples!r} is neither None nor a whole number above 0")
    return max_examples
