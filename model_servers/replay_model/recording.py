"""The recorded calls of one session, given out again to a harness that asks the same. Pure.

Calls are told by what their messages say (`gym_core.capture.turns`), not by their number: a harness may ask twice, or
hold two conversations side by side. Of calls that say the same the earliest is given out first; once all of them were,
the last of them again.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from gym_core.capture.recorder import CapturedCall
from gym_core.capture.turns import Turn, read_turn
from gym_core.types.model_call import CallOutcome, ModelCall

MAX_EXCERPT_CHARS = 120
_BEFORE_CHARS = 30
"""Of what the two texts share, so that one sees where they part."""


class Diverged(Exception):
    """The harness asked what was never recorded. The message says what differs first."""


@dataclass(eq=False)
class RecordedCall:
    call: CapturedCall
    facts: ModelCall
    """Without the conversation and the tokens."""
    texts: tuple[bytes, ...]
    """Its messages, without what is ignored."""
    turns: tuple[Turn, ...]
    times: int = field(default=0)
    """It was given out."""

    @property
    def keys(self) -> tuple[bytes, ...]:
        return tuple(turn.key for turn in self.turns)

    @property
    def number(self) -> int:
        """In its session, from 1."""
        return self.facts.index + 1


class Recording:
    """`ignored` are patterns over the JSON text of a message: what they match may differ."""

    def __init__(self, calls: Iterable[CapturedCall], ignored: Sequence[re.Pattern[str]] = ()) -> None:
        """Linear in the recorded text. Raises ValueError for records that are none."""
        self._ignored = ignored
        known = [self._recorded(call) for call in calls]
        self._calls = sorted((call for call in known if call.texts), key=lambda call: call.facts.index)

    def __len__(self) -> int:
        return len(self._calls)

    def next(self, messages: Sequence[bytes]) -> RecordedCall:
        """The call that asked this. Raises Diverged."""
        texts = tuple(self._comparable(message) for message in messages)
        keys = tuple(read_turn(text).key for text in texts)
        asked_so = [call for call in self._calls if call.keys == keys]
        if not asked_so:
            raise Diverged(self._difference(texts, keys))
        # One that was never answered stands only for itself: its twin, asked again later, may have been.
        found = min(asked_so, key=lambda call: (call.times, call.facts.outcome is not CallOutcome.ANSWERED))
        if found.times and all(call.times for call in asked_so):
            found = asked_so[-1]
        found.times += 1
        return found

    def _recorded(self, call: CapturedCall) -> RecordedCall:
        texts = tuple(self._comparable(message) for message in call.messages)
        return RecordedCall(call, ModelCall.model_validate(call.facts), texts, tuple(map(read_turn, texts)))

    def _comparable(self, message: bytes) -> bytes:
        if not self._ignored:
            return message
        text = message.decode("utf-8", "surrogateescape")
        for pattern in self._ignored:
            text = pattern.sub("", text)
        return text.encode("utf-8", "surrogateescape")

    def _difference(self, texts: Sequence[bytes], keys: Sequence[bytes]) -> str:
        """Between what was asked and the recorded call that it resembles most, an unused one before others."""
        if not self._calls:
            return "no call of this rollout was recorded"
        unused = [call for call in self._calls if not call.times]
        nearest = max(unused or self._calls, key=lambda call: _n_shared(call.keys, keys))
        at = _n_shared(nearest.keys, keys)
        said = f"all {len(self._calls)} recorded calls were asked before; " if not unused else ""
        if at == len(keys) or at == len(nearest.keys):
            return f"{said}it has {len(keys)} messages, recorded call {nearest.number} has {len(nearest.keys)}"
        before, now = _excerpts(nearest.texts[at], texts[at])
        role = nearest.turns[at].role or "unreadable"
        return f"{said}message {at + 1} ({role}) of recorded call {nearest.number} was {before}, and is now {now}"


def _n_shared(a: Sequence[bytes], b: Sequence[bytes]) -> int:
    return next((i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


def _excerpts(before: bytes, now: bytes) -> tuple[str, str]:
    """Both from a little before the place where they part."""
    texts = before.decode("utf-8", "replace"), now.decode("utf-8", "replace")
    start = max(0, _common_length(*texts) - _BEFORE_CHARS)
    return _excerpt(texts[0], start), _excerpt(texts[1], start)


def _common_length(a: str, b: str) -> int:
    """Of the longest common beginning. By halves: a tool's output may be megabytes, and this is an event loop."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _excerpt(text: str, start: int) -> str:
    end = start + MAX_EXCERPT_CHARS
    return repr(f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}")


def same_tools(recorded: bytes, now: bytes) -> bool:
    """Two JSON lists of tools; b"" is none."""
    try:
        return bool(msgspec.json.decode(recorded or b"[]") == msgspec.json.decode(now or b"[]"))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return recorded == now
