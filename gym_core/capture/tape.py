"""Token ids of calls that go on from each other, kept once: a call's prompt and answer are the beginning of a tape."""

from dataclasses import dataclass

import numpy as np

from gym_core.capture.payload import Logprobs
from gym_core.capture.token_table import Ids

_BLOCK = 1 << 16
"""Tokens compared at a time: their differences stay in the processor's cache."""


class TokenTape:
    """Token ids that only grow at their end."""

    def __init__(self, ids: Ids) -> None:
        """Copies `ids`."""
        self._ids = np.empty(max(256, len(ids) + len(ids) // 2), np.int32)
        self._ids[: len(ids)] = ids
        self.length = len(ids)

    def extend(self, ids: Ids) -> None:
        end = self.length + len(ids)
        if end > len(self._ids):
            grown = np.empty(end + end // 2, np.int32)
            grown[: self.length] = self._ids[: self.length]
            self._ids = grown
        self._ids[self.length : end] = ids
        self.length = end

    def head(self, length: int) -> Ids:
        """A read-only view of the first ids. What is added later does not show in it."""
        view = self._ids[:length]
        view.flags.writeable = False
        return view


@dataclass(frozen=True, eq=False)
class Stretch:
    """One call's tokens: the first `n_full` of a tape, sampled from `n_prompt` on. S = n_full - n_prompt."""

    tape: TokenTape
    n_prompt: int
    n_full: int
    logprobs_S: Logprobs

    @property
    def full(self) -> Ids:
        """Prompt and sampled ids."""
        return self.tape.head(self.n_full)

    @property
    def sampled(self) -> Ids:
        return self.full[self.n_prompt :]

    @classmethod
    def lay(cls, prompt: Ids, sampled: Ids, logprobs: Logprobs, *, after: "Stretch | None") -> "Stretch":
        """Of a call whose prompt begins with all of `after`: on the same tape unless another call went on there."""
        n_prompt, n_full = len(prompt), len(prompt) + len(sampled)
        if after is None or after.tape.length != after.n_full:
            tape = TokenTape(np.concatenate([prompt, sampled]))
        else:
            tape = after.tape
            tape.extend(prompt[after.n_full :])
            tape.extend(sampled)
        return cls(tape, n_prompt, n_full, np.array(logprobs, np.float32))

    def may_begin(self, prompt: Ids) -> bool:
        """Whether the sampled part alone stands in `prompt` where it would have to: costs next to nothing."""
        return self.n_full <= len(prompt) and bool(np.array_equal(prompt[self.n_prompt : self.n_full], self.sampled))

    def agreement(self, prompt: Ids) -> int:
        """How many first tokens `prompt` shares with this call's: `n_full` when it begins with all of them."""
        return common_length(self.full, prompt)


def common_length(a: Ids, b: Ids) -> int:
    """Of the longest common beginning."""
    n = min(len(a), len(b))
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        differs = a[start:end] != b[start:end]
        if differs.any():
            return start + int(differs.argmax())
    return n
