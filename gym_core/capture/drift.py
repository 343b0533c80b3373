"""Why a prompt does not hold the tokens that were sampled before it, when the messages are the same.

With a decoder the texts decide. Without one only what tokens can prove is claimed, and the rest is RERENDERED:

- REASONING_DROPPED: the break is at the beginning of an answer that had reasoning, and either the message that brought
  it back holds none (then the prompt cannot), or the prompt goes on with a later part of that very answer.
- RETOKENIZED: within an answer that is text only, stretches of tokens are replaced by others and the tokens meet again
  up to the answer's end. One text has one token for one token, so a replacement of one by one, and tokens that are only
  taken out or put in, mean another text. Tool calls are spelled anew by templates, so their tokens prove nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gym_core.capture.token_table import Ids
from gym_core.types.model_call import CallAnswer
from gym_core.types.sample import DriftReason

Decode = Callable[[Sequence[int]], str]
"""Token ids to text, special tokens included."""

_BEFORE_ANSWER = 16
"""Tokens of a generation prompt: templates put the opening of the reasoning there, or leave it out."""
_OPENING = 8
"""Tokens at the start of an answer that a template may put back although it drops the reasoning."""
_RESYNC = 4
"""Equal tokens in a row after which two sequences are taken to be together again."""
_WIDEST_CHANGE = 12
_MOST_CHANGES = 64
_NEEDLE_CHARACTERS = 48


@dataclass(frozen=True)
class Break:
    """A prompt, and the call whose answer it does not hold as it was sampled. Positions count tokens of both."""

    seen: Ids
    """Prompt and sampled ids of the last call of the conversation."""
    prompt: Ids
    position: int
    """Of the first difference."""
    start: int
    """Of the sampled part of the answer in question: the first one that ends after the break."""
    end: int
    answer: CallAnswer
    keeps_reasoning: bool
    """Whether the message that brought the answer back holds reasoning."""


def reason_of(found: Break, decode: Decode | None) -> DriftReason:
    if _drops_reasoning(found, decode):
        return DriftReason.REASONING_DROPPED
    if _is_same_text(found, decode) if decode else _is_resplit(found):
        return DriftReason.RETOKENIZED
    return DriftReason.RERENDERED


def _drops_reasoning(found: Break, decode: Decode | None) -> bool:
    needle = found.answer.reasoning.strip()[:_NEEDLE_CHARACTERS]
    if not needle or not found.start - _BEFORE_ANSWER <= found.position <= found.start + _OPENING:
        return False
    if decode is not None:
        first = max(0, found.start - _BEFORE_ANSWER)
        last = 2 * found.end - first + 64  # room for a text in twice as many tokens
        return needle not in decode(found.prompt[first:last].tolist())
    return not found.keeps_reasoning or _goes_on_later(found)


def _goes_on_later(found: Break) -> bool:
    """Whether, give or take a few tokens of an empty reasoning block, the prompt goes on with a later part."""
    old = found.seen[found.position : found.end]
    new = found.prompt[found.position : found.position + 3 * _RESYNC]
    starts = range(min(2 * _RESYNC, len(new)))
    return any(_stands_in(new[at : at + _RESYNC], old[at + _RESYNC :]) for at in starts)


def _stands_in(needle: Ids, ids: Ids) -> bool:
    """Whether `ids` hold the needle, or end in two tokens or more of its beginning."""
    if len(needle) < 2 or len(ids) < 2:
        return False
    begins = ids == needle[0]
    for at in range(1, min(len(needle), len(ids))):
        begins[:-at] &= ids[at:] == needle[at]
    return bool(begins[:-1].any())


def _is_same_text(found: Break, decode: Decode) -> bool:
    first = max(0, found.position - _OPENING)
    old = decode(found.seen[first:].tolist()).rstrip("\ufffd")
    new = decode(found.prompt[first : first + 2 * (len(found.seen) - first) + 64].tolist())
    return new.startswith(old)


def _is_resplit(found: Break) -> bool:
    if found.answer.tool_calls or not found.start <= found.position < found.end:
        return False
    old = found.seen[found.position : found.end].tolist()
    new = found.prompt[found.position : found.position + 2 * len(old) + _WIDEST_CHANGE].tolist()
    for _ in range(_MOST_CHANGES):
        change = _change(old, new)
        if change is None:
            return False
        old, new = old[change[0] :], new[change[1] :]
        same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        old, new = old[same:], new[same:]
        if not old:
            return True
    return False


def _change(old: list[int], new: list[int]) -> tuple[int, int] | None:
    """The smallest replacement, as counts of old and new tokens, after which both go on alike; None for others."""
    for total in range(3, 2 * _WIDEST_CHANGE):
        for n_old in range(1, min(total, len(old))):
            rest, n_new = old[n_old : n_old + _RESYNC], total - n_old
            # An end of turn comes again soon: where little is left to compare, only the first one counts.
            is_met = rest == new[n_new : n_new + len(rest)] and (len(rest) == _RESYNC or rest[0] not in new[:n_new])
            if is_met:
                return n_old, n_new
    return None
