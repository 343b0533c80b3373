"""Token ids in as few bytes as a session's own vocabulary allows: each id by its place in the order of first use.

Text uses few tokens often and most tokens once. What is used often comes early, so its place is a small number, and
small numbers are one byte each. Writer and reader keep the same table, record by record.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
ScalarT = TypeVar("ScalarT", bound=np.generic)

_N_SHORT = 128
"""Symbols below it are whole places; one above it is the upper part of a place, with a byte of its own for the rest."""
MAX_PLACES = _N_SHORT - 1 + (256 - _N_SHORT) * 256
_MAX_TABLE_ID = 1 << 18
"""Ids beyond are never given a place: no vocabulary is that large, and the table is as long as its largest id."""


@dataclass(frozen=True)
class CodedIds:
    """T ids. Symbol 0 stands for the next of `literals`, which takes the next free place if there is one."""

    symbols_T: Bytes
    literals: Ids
    rests: Bytes
    """One for each symbol of 128 and more."""


class TokenTable:
    """Ids that were seen, and their places from 1 on. Bounded: 0.8 MiB."""

    def __init__(self) -> None:
        self._place_of = np.zeros(1, np.uint16)
        """By id; the last entry stays 0 and stands for all ids beyond."""
        self._id_at = np.zeros(1, np.int32)
        self._n_places = 0

    def __len__(self) -> int:
        return self._n_places

    def encode(self, ids_T: Ids) -> CodedIds:
        """Gives new ids their places. `cut_back` undoes it."""
        places_T = self._places(ids_T)
        new_at = np.flatnonzero(places_T == 0)
        if len(new_at):
            new = ids_T[new_at]
            first_at = _first_uses(new)
            self._add(new[first_at])
            places_T[new_at] = self._places(new)
            places_T[new_at[first_at]] = 0
            new = ids_T[places_T == 0]
        else:
            new = ids_T[:0]
        is_long = places_T >= _N_SHORT
        long = places_T[is_long] - np.uint16(_N_SHORT)
        symbols_T = places_T.astype(np.uint8)
        symbols_T[is_long] = _N_SHORT + (long >> 8)
        return CodedIds(symbols_T, new, (long & 255).astype(np.uint8))

    def decode(self, coded: CodedIds) -> Ids:
        """Inverse of `encode` on a table with the same past. Raises ValueError for symbols without a place."""
        if len(coded.literals):
            self._add(coded.literals[_first_uses(coded.literals)])
        places_T = coded.symbols_T.astype(np.int64)
        is_long = places_T >= _N_SHORT
        places_T[is_long] = ((places_T[is_long] - _N_SHORT) << 8) + coded.rests + _N_SHORT
        if len(places_T) and places_T.max() > self._n_places:
            raise ValueError("a token stands for one that was never seen")
        ids_T = self._id_at[places_T]
        ids_T[places_T == 0] = coded.literals
        return ids_T

    def cut_back(self, n_places: int) -> None:
        """Forget the newest ids: a record that holds them was not written after all."""
        self._place_of[self._id_at[n_places + 1 : self._n_places + 1]] = 0
        self._n_places = n_places

    def _places(self, ids: Ids) -> npt.NDArray[np.uint16]:
        """0 for those without one."""
        return self._place_of.take(ids.view(np.uint32), mode="clip")

    def _add(self, ids: Ids) -> None:
        """Give different ids places, in order, while there are places."""
        added = ids[ids.view(np.uint32) < _MAX_TABLE_ID][: MAX_PLACES - self._n_places]
        if len(added):
            self._make_room(int(added.max()) + 2, self._n_places + len(added) + 1)
            places = np.arange(self._n_places + 1, self._n_places + 1 + len(added))
            self._place_of[added] = places
            self._id_at[places] = added
            self._n_places += len(added)

    def _make_room(self, n_ids: int, n_places: int) -> None:
        if n_ids > len(self._place_of):
            self._place_of = _grown(self._place_of, n_ids)
        if n_places > len(self._id_at):
            self._id_at = _grown(self._id_at, n_places)


def _first_uses(ids: Ids) -> list[int]:
    """Where each different id stands first."""
    found: dict[int, int] = {}
    for at, id_ in enumerate(ids.tolist()):
        found.setdefault(id_, at)
    return list(found.values())


def _grown(array: npt.NDArray[ScalarT], n: int) -> npt.NDArray[ScalarT]:
    grown = np.zeros((1 << (n - 1).bit_length()) + 1, array.dtype)
    grown[: len(array)] = array
    return grown
