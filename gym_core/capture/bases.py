"""What earlier records of a capture file leave behind for later ones to build on.

A sub-agent's call continues its own last call and not the main conversation's, and a retry the call before the one
that failed. So several records are remembered, by writer and reader alike, and a record says which one it builds on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gym_core.capture.tape import common_length
from gym_core.capture.token_table import Ids

MAX_BASES = 64
MAX_BASE_IDS = 2 << 20
"""Over all that are remembered: 8 MiB a session. The newest is remembered however long it is."""
_NEAR_IDS = 256
"""A record that shares all but this many ids with the newest one builds on it: a better one would save little."""
_NEAR_MESSAGES = 4
_MAX_CANDIDATES = 4
_N_PROBES = 16
_PROBED_AT = np.concatenate([np.arange(0, 1024, 64), np.arange(1024, 256 << 10, 1024)])
"""Positions by which it is told which records are worth comparing."""

Probes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Base:
    """One record, as far as others can share it."""

    messages: Sequence[bytes] = ()
    tools: bytes = b""
    """b"" equals no record's, so the first record of a writer always names its tools."""
    ids: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    """Prompt and sampled ids."""


@dataclass(frozen=True)
class Shared:
    """What a record has in common with its base."""

    n_back: int
    """Records between the base and the new one: 0 is the one before it."""
    base: Base
    n_messages: int
    n_ids: int


class Bases:
    """The records to build on, oldest use first. Equal calls of `add` leave equal ones behind."""

    def __init__(self) -> None:
        self._by_number: dict[int, Base] = {}
        self._probes: dict[int, Probes] = {}
        """Of those that were looked through once."""
        self._n_records = 0
        self._n_ids = 0

    def best(self, messages: Sequence[bytes], prompt_ids: Ids | None) -> Shared:
        """The record that shares most with a new one: token ids where there are any, messages where not."""
        if not self._by_number:
            return Shared(0, Base(), 0, 0)
        nearest = self._shared(self._n_records - 1, messages, prompt_ids)
        n_left = len(messages) - nearest.n_messages if prompt_ids is None else len(prompt_ids) - nearest.n_ids
        if len(self._by_number) == 1 or n_left <= (_NEAR_MESSAGES if prompt_ids is None else _NEAR_IDS):
            return nearest
        if prompt_ids is None:
            likeness = [_probed(base.messages, messages) for base in self._by_number.values()]
        else:
            differs = np.stack([self._probes_of(number) for number in self._by_number]) != _probes(prompt_ids)
            likeness = np.where(differs.any(1), differs.argmax(1), len(_PROBED_AT)).tolist()
        numbers = sorted(zip(likeness, self._by_number, strict=True), reverse=True)[:_MAX_CANDIDATES]
        found = [nearest, *(self._shared(number, messages, prompt_ids) for _, number in numbers)]
        return max(found, key=lambda shared: (shared.n_ids, shared.n_messages))

    def _shared(self, number: int, messages: Sequence[bytes], prompt_ids: Ids | None) -> Shared:
        base = self._by_number[number]
        n_ids = 0 if prompt_ids is None else common_length(base.ids, prompt_ids)
        return Shared(self._n_records - 1 - number, base, common_messages(base.messages, messages), n_ids)

    def find(self, n_back: int) -> Base:
        """Raises ValueError for one that is not remembered."""
        if not self._n_records and not n_back:
            return Base()
        base = self._by_number.get(self._n_records - 1 - n_back)
        if base is None:
            raise ValueError(f"it builds on a record that is not there: {n_back} before the last one")
        return base

    def add(self, record: Base, shared: Shared) -> None:
        """Remember a record. A base that it holds whole is not needed any more."""
        number = self._n_records - 1 - shared.n_back
        is_whole = shared.n_messages == len(shared.base.messages) and shared.n_ids == len(shared.base.ids)
        if number in self._by_number:
            if is_whole:
                self._forget(number)
            else:
                self._by_number[number] = self._by_number.pop(number)  # used last
        self._by_number[self._n_records] = record
        self._n_records += 1
        self._n_ids += len(record.ids)
        while len(self._by_number) > 1 and (len(self._by_number) > MAX_BASES or self._n_ids > MAX_BASE_IDS):
            self._forget(next(iter(self._by_number)))

    def _forget(self, number: int) -> None:
        self._n_ids -= len(self._by_number.pop(number).ids)
        self._probes.pop(number, None)

    def _probes_of(self, number: int) -> Probes:
        if number not in self._probes:
            self._probes[number] = _probes(self._by_number[number].ids)
        return self._probes[number]


def _probes(ids: Ids) -> Probes:
    found = np.full(len(_PROBED_AT), -1, np.int32)
    n = int(np.searchsorted(_PROBED_AT, len(ids)))
    found[:n] = ids[_PROBED_AT[:n]]
    return found


def _probed(a: Sequence[bytes], b: Sequence[bytes]) -> int:
    """About how many of their first messages are equal: a few are compared."""
    n = min(len(a), len(b))
    equal = 0
    for probe in range(1, _N_PROBES + 1):
        upto = n * probe // _N_PROBES
        if upto and a[upto - 1] != b[upto - 1]:
            break
        equal = upto
    return equal


def common_messages(a: Sequence[bytes], b: Sequence[bytes]) -> int:
    n = 0
    for left, right in zip(a, b, strict=False):
        if left is not right and left != right:
            break
        n += 1
    return n
