"""Token surgery: a prompt that begins with ids that were seen and sampled before. Pure; knows no wire and no model.

A chat template prints a whole conversation anew with every call, and what it prints of an answer need not be the tokens
that were sampled. Of a new render only the part after the last known answer is used. It is found by counting
end-of-turn tokens, because everything else in the history may come out longer or shorter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gym_core.capture.recorder import Ids


class CannotSplice(Exception):
    """The exact prompt cannot be made. `why` is a stable word."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class Placeholders:
    """How the pictures of one prompt stand in it: a run of one token each."""

    token_id: int
    lengths: tuple[int, ...]
    """Tokens of each picture, in order."""


def find_end_of_turn(one: Ids, other: Ids) -> int | None:
    """The token by which a template closes an answer: the first of those that two renders have in common at their end.

    The renders are of one conversation with two different last answers, and without a generation prompt. None for a
    template that closes an answer only by beginning the next turn.
    """
    n = min(len(one), len(other))
    differs = np.flatnonzero(one[len(one) - n :] != other[len(other) - n :])
    n_same = n - (int(differs[-1]) + 1 if len(differs) else 0)
    return int(one[-n_same]) if 0 < n_same < len(one) else None


def splice(seen: Ids, rendered: Ids, *, history: Ids, end_of_turn: int) -> Ids:
    """`seen`, and what the template adds after it.

    `seen` is the prompt and the sampled tokens of the call that is gone on from, `rendered` the template's print of the
    whole new conversation, `history` its print up to that call's answer. An answer that was cut off has no end of turn:
    the template's own is put after it. What was sampled is never replaced. Raises CannotSplice.
    """
    ends = np.flatnonzero(rendered == end_of_turn)
    n_turns = int(np.count_nonzero(history == end_of_turn))
    is_closed = bool(seen[-1] == end_of_turn)
    n_seen = int(np.count_nonzero(seen == end_of_turn)) + (not is_closed)
    # They differ when an answer spells out the end of a turn, or when the template leaves out a turn: then nobody
    # knows where the answer ends in the new render.
    if n_turns != n_seen or not 0 < n_turns <= len(ends):
        raise CannotSplice("turns_not_counted")
    rest = rendered[ends[n_turns - 1] + is_closed :]
    return np.concatenate([seen, rest])


def read_placeholders(rendered: Ids, spans: Sequence[tuple[int, int]]) -> Placeholders | None:
    """Of (offset, length) of each picture in a render; None when it has none. Raises CannotSplice."""
    if not spans:
        return None
    ordered = sorted(spans)
    found = {int(token) for offset, length in ordered for token in np.unique(rendered[offset : offset + length])}
    if len(found) != 1:
        # Rows and columns are marked within the picture: nobody but the engine's processor can fold that.
        raise CannotSplice("placeholder_of_several_tokens")
    return Placeholders(found.pop(), tuple(length for _, length in ordered))


def fold_pictures(ids: Ids, placeholders: Placeholders) -> Ids:
    """The same with one placeholder a picture: what an engine takes that expands them itself. Raises CannotSplice."""
    positions = np.flatnonzero(ids == placeholders.token_id)
    lengths = np.array(placeholders.lengths)
    firsts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    if len(positions) != lengths.sum():
        # The model itself wrote one: an engine would take it for a further picture.
        raise CannotSplice("placeholder_sampled")
    if not np.array_equal(positions[firsts + lengths - 1] - positions[firsts], lengths - 1):
        raise CannotSplice("placeholder_sampled")
    is_kept = np.ones(len(ids), bool)
    is_kept[positions] = False
    is_kept[positions[firsts]] = True
    return ids[is_kept]
