"""The ends of a session's conversations as token ids, for the calls that go on from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gym_core.capture.conversation import ConversationIndex, TurnMemory
from gym_core.capture.recorder import CallTokens, Ids
from gym_core.servers.model.splice import CannotSplice
from gym_core.types.model_call import CallAnswer

MAX_TIP_BYTES = 64 << 20
"""Of one session's ids: a hundred and thirty conversations of 130,000 tokens. Past it the oldest are forgotten."""


@dataclass(frozen=True)
class Tip:
    """An answered call that a request goes on from."""

    tokens: CallTokens
    n_messages: int
    """Of the request, up to and with that call's answer."""

    @property
    def seen(self) -> Ids:
        return np.concatenate([self.tokens.prompt_ids, self.tokens.ids_S])


class Tips:
    def __init__(self, max_bytes: int = MAX_TIP_BYTES) -> None:
        self._turns = TurnMemory()
        self._index = ConversationIndex(self._turns)
        self._tokens: dict[str, CallTokens | None] = {}
        """In order of use. None for a call whose tokens did not come whole."""
        self._max_bytes = max_bytes
        self._bytes = 0

    def add(
        self, call_id: str, messages: Sequence[bytes], tools: bytes, answer: CallAnswer, tokens: CallTokens | None
    ) -> None:
        """`messages` as they are kept; `tokens` None when they are not whole."""
        self._index.add(call_id, messages, answer, tools)
        self._tokens[call_id] = tokens
        self._bytes += _size(tokens)
        while self._bytes > self._max_bytes:
            oldest = next(iter(self._tokens))
            self._bytes -= _size(self._tokens.pop(oldest))

    def find(self, messages: Sequence[bytes], tools: bytes) -> Tip | None:
        """What these messages go on from; None when they begin a conversation. Raises CannotSplice when its ids are
        not to be had."""
        place = self._index.place(messages, tools)
        if not place.parents:
            if any(self._turns.read(raw).role == "assistant" for raw in messages):
                raise CannotSplice("history_unknown")
            return None
        if place.n_parent == len(messages):
            raise CannotSplice("nothing_added")
        same = [candidate for candidate in place.parents if candidate.same_head]
        if not same:
            raise CannotSplice("system_or_tools_changed")
        known = [candidate.call_id for candidate in same if candidate.call_id in self._tokens]
        if not known:
            raise CannotSplice("parent_forgotten")
        for call_id in known:
            tokens = self._tokens[call_id]
            if tokens is not None:
                self._tokens[call_id] = self._tokens.pop(call_id)
                return Tip(tokens, place.n_parent)
        raise CannotSplice("parent_without_ids")


def _size(tokens: CallTokens | None) -> int:
    return tokens.prompt_ids.nbytes + tokens.ids_S.nbytes if tokens else 0
