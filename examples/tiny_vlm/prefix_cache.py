"""Attention states of recent prompts, so that a conversation's next call computes only what is new.

States are taken as copies and cut to the part in common, so a result never depends on what another request did to them
later. Pictures count by their pixels: equal placeholder tokens of different pictures are different.
"""

import copy
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from transformers import DynamicCache

from examples.tiny_vlm.prompts import Prompt

CAPACITY = 12
"""Conversations kept; one of 30,000 tokens takes about 15 MB."""
Keys = npt.NDArray[np.int64]


class PrefixCache:
    """Not thread-safe: the engine's one thread owns it."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, tuple[Keys, DynamicCache]] = OrderedDict()

    def longest(self, prompt: Prompt) -> tuple[int, DynamicCache | None]:
        """How many of the prompt's first tokens are known, always fewer than all, and a copy of their states."""
        wanted = prompt_keys(prompt, ())
        best, found = 0, b""
        for name, (keys, _) in self._entries.items():
            if (length := _common(wanted, keys)) > best:
                best, found = length, name
        best = _before_any_cut_picture(min(best, len(wanted) - 1), prompt)
        if best == 0:
            return 0, None
        self._entries.move_to_end(found)
        keys, states = self._entries[found]
        states = copy.deepcopy(states)
        if best < len(keys):
            states.crop(best - len(keys))
        return best, states

    def keep(self, keys: Keys, states: DynamicCache) -> None:
        """The states now belong to the cache. Those of which these are a continuation are dropped."""
        for name, (known, _) in list(self._entries.items()):
            if _common(known, keys) == len(known):
                del self._entries[name]
        self._entries[keys.tobytes()] = (keys, states)
        while len(self._entries) > CAPACITY:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        self._entries.clear()


def prompt_keys(prompt: Prompt, sampled: Sequence[int]) -> Keys:
    """One number a token; a picture's placeholders are numbered by its pixels, below zero."""
    keys = np.array([*prompt.token_ids, *sampled], dtype=np.int64)
    for picture, span in zip(prompt.pictures, prompt.placeholders, strict=True):
        keys[span.offset : span.offset + span.length] = -1 - int(picture.digest[:15], 16)
    return keys


def _common(one: Keys, other: Keys) -> int:
    shorter = min(len(one), len(other))
    differs = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(differs[0]) if len(differs) else shorter


def _before_any_cut_picture(length: int, prompt: Prompt) -> int:
    for span in prompt.placeholders:
        if span.offset < length < span.offset + span.length:
            return span.offset
    return length
