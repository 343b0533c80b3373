"""Which call a request goes on from, told by the content of its messages alone (see `gym_core.capture.turns`).

The system prompt and the tools are no turns. They are compared apart, so that a change of them can be told from a
change of the conversation. Whether the tokens go on as well is not known here (see `gym_core.capture.lineage`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gym_core.capture.turns import Turn, answer_turn, read_turn
from gym_core.types.model_call import CallAnswer

MAX_REMEMBERED_TURNS = 20_000
_SYSTEM_ROLES = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A call that a request may go on from."""

    call_id: str
    same_system: bool
    same_tools: bool

    @property
    def same_head(self) -> bool:
        return self.same_system and self.same_tools


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands among the calls of its session. Counts are of all its messages, system ones included."""

    parents: tuple[Candidate, ...]
    """Calls whose messages and answer are the longest such beginning of these messages. Several when one request was
    answered more than once with the same words: token ids alone can tell which was gone on with. Those with the same
    system prompt and tools come first, then the most recent."""
    n_parent: int
    """Messages of that beginning, its answer included; those of the system prompt alone when there is no parent."""
    n_known: int
    """Messages that some call's messages and answer begin with as well; not fewer than `n_parent`."""
    known_by: str | None
    """The most recent such call; None when not even the first turn is known."""
    asked_by: str | None
    """The most recent call with the same system prompt and tools whose messages, without its answer, are the longest
    such beginning of these messages: equal to them when this request was made before."""
    n_asked: int
    """Messages of that beginning."""


@dataclass
class TurnMemory:
    """Turns by the bytes of their messages: a session's messages come back with every call.

    Bytes that calls share as one object cost a look-up. Bounded: past its limit it starts again, which costs time only.
    """

    _turns: dict[bytes, Turn] = field(default_factory=dict)

    def read(self, raw: bytes) -> Turn:
        turn = self._turns.get(raw)
        if turn is None:
            if len(self._turns) >= MAX_REMEMBERED_TURNS:
                self._turns.clear()
            turn = self._turns[raw] = read_turn(raw)
        return turn

    def split_system(self, messages: Sequence[bytes]) -> int:
        """How many of the first messages are the system prompt."""
        n = 0
        while n < len(messages) and self.read(messages[n]).role in _SYSTEM_ROLES:
            n += 1
        return n


@dataclass(slots=True)
class _Answered:
    call_id: str
    system: bytes
    tools: bytes


@dataclass(slots=True)
class _Node:
    """One beginning of a conversation."""

    children: dict[bytes, "_Node"] = field(default_factory=dict)
    """By the key of the next turn."""
    ended_here: list[_Answered] = field(default_factory=list)
    """Calls whose messages and answer are this beginning, in the order they were added."""
    asked_here: dict[tuple[bytes, bytes], str] = field(default_factory=dict)
    """The last call whose messages are this beginning, by its system prompt and tools."""
    latest: str = ""
    """The last call added whose messages and answer begin like this."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """The nodes that some messages lead through, one to each turn of theirs, as far as there are any."""

    messages: tuple[bytes, ...]
    nodes: list[_Node]


class ConversationIndex:
    """The calls of one session by what was said. Both methods cost one look-up per message that the request before
    did not hold in the same place."""

    def __init__(self, turns: TurnMemory | None = None) -> None:
        self._turns = turns or TurnMemory()
        self._root = _Node()
        self._walked = _Walk((), [])

    def add(self, call_id: str, messages: Sequence[bytes], answer: CallAnswer | Turn, tools: bytes = b"[]") -> None:
        """Note a call that was answered. `messages` as they are kept: JSON of each, images as references."""
        answered = answer if isinstance(answer, Turn) else answer_turn(answer)
        n_system = self._turns.split_system(messages)
        system, tools = self._system_key(messages, n_system), tools or b"[]"
        nodes = self._walk(messages, n_system)
        node = nodes[-1] if nodes else self._root
        for raw in messages[n_system + len(nodes) :]:
            node = _child(node, self._turns.read(raw).key)
            nodes.append(node)
        node.asked_here[system, tools] = call_id
        said = _child(node, answered.key)
        said.ended_here.append(_Answered(call_id, system, tools))
        for passed in (*nodes, said):
            passed.latest = call_id

    def place(self, messages: Sequence[bytes], tools: bytes = b"[]") -> Place:
        """Where a request stands among the calls that were added so far."""
        n_system = self._turns.split_system(messages)
        system, tools = self._system_key(messages, n_system), tools or b"[]"
        nodes = self._walk(messages, n_system)
        n_parent = _deepest(nodes, lambda node: bool(node.ended_here))
        n_asked = _deepest(nodes, lambda node: (system, tools) in node.asked_here)
        asked = nodes[n_asked - 1] if n_asked else self._root
        return Place(
            _candidates(nodes[n_parent - 1].ended_here, system, tools) if n_parent else (),
            n_system + n_parent,
            n_system + len(nodes),
            nodes[-1].latest if nodes else None,
            asked.asked_here.get((system, tools)),
            n_system + n_asked,
        )

    def _walk(self, messages: Sequence[bytes], n_system: int) -> list[_Node]:
        """Nodes to the turns of `messages` from the first one on; as many as are known."""
        before = self._walked
        n_before = n_system + len(before.nodes)
        is_longer = tuple(messages[:n_before]) == before.messages[:n_before]
        nodes = before.nodes if is_longer else []
        node = nodes[-1] if nodes else self._root
        for raw in messages[n_system + len(nodes) :]:
            child = node.children.get(self._turns.read(raw).key)
            if child is None:
                break
            node = child
            nodes.append(node)
        self._walked = _Walk(tuple(messages), nodes)
        return nodes

    def _system_key(self, messages: Sequence[bytes], n_system: int) -> bytes:
        return b"".join(self._turns.read(raw).key for raw in messages[:n_system])


def _child(node: _Node, key: bytes) -> _Node:
    child = node.children.get(key)
    if child is None:
        child = node.children[key] = _Node()
    return child


def _deepest(nodes: Sequence[_Node], is_one: Callable[[_Node], bool]) -> int:
    """How many nodes the last one that is one ends; 0 for none."""
    return next((n for n in range(len(nodes), 0, -1) if is_one(nodes[n - 1])), 0)


def _candidates(answered: Sequence[_Answered], system: bytes, tools: bytes) -> tuple[Candidate, ...]:
    found = [Candidate(call.call_id, call.system == system, call.tools == tools) for call in reversed(answered)]
    return tuple(sorted(found, key=lambda candidate: not candidate.same_head))
