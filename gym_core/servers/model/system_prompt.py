"""The system prompt of a conversation, held still: harnesses write the date into it, and it changes at midnight.

A prompt that changes in its first lines does not begin with the tokens that were sampled before, and the conversation
cannot be trained as one sequence.
"""

from collections.abc import Sequence

from msgspec import Raw

from gym_core.servers.model.messages import ReadMessage

MAX_REMEMBERED_BYTES = 16 << 20
MAX_STARTS = 8
"""Different system prompts before one and the same first message."""
_SYSTEM_ROLES = ("system", "developer")


class SystemPrompts:
    """Of one session. Conversations are told apart by their tools and the message after the system prompt.

    Bounded: what is beyond is not remembered, and goes as it comes.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], list[bytes]] = {}
        self._n_bytes = 0

    def settled(self, tools: Raw, first: Raw, messages: Sequence[ReadMessage]) -> bytes | None:
        """The system prompt that this conversation began with; None when the call has it, or none is to be had.

        `first` is the first message as it came. A call of two messages begins a conversation: its system prompt is its
        own.
        """
        if len(messages) < 2 or messages[0].role not in _SYSTEM_ROLES:
            return None
        system, second = bytes(first), messages[1].kept
        # hash() of bytes is SipHash under a secret of this process: nobody outside can aim at a collision.
        known = self._known.setdefault((hash(bytes(tools)), len(second), hash(second)), [])
        if system in known:
            return None
        if known and len(messages) > 2:
            return known[0] if len(known) == 1 else None
        if len(known) < MAX_STARTS and self._n_bytes + len(system) <= MAX_REMEMBERED_BYTES:
            known.append(system)
            self._n_bytes += len(system)
        return None
