"""Which call of a session went on from which: what was said decides, token ids verify, and a break is named.

A call has up to two forebears. Its `parent` is the call whose conversation it continues. Its `token_parent` is the
nearest one on the way back whose prompt and sampled ids begin its prompt. They are one call as long as the engine's
prompt holds what was sampled; where they are not, `drift` says where and why.

A request continues an edited history when it holds assistant turns that nobody gave in this conversation, or goes on
where an answer of a known request is missing. Its parent is then, in this order: the call that gave the last of its
answers with tool calls (their ids are unique), the call whose answer is missing, the most recent call that shares the
longest beginning with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gym_core.capture.conversation import Candidate, ConversationIndex, Place, TurnMemory
from gym_core.capture.drift import Break, Decode, reason_of
from gym_core.capture.recorder import CallTokens, CapturedCall
from gym_core.capture.tape import Stretch
from gym_core.capture.token_table import Ids
from gym_core.capture.turns import Turn, answer_turn
from gym_core.types.model_call import CallAnswer, ModelCall
from gym_core.types.sample import Drift, DriftReason

_MOST_COMPARED = 4
"""Equal answers whose tokens are compared in full to find the one that a broken prompt resembles most."""


@dataclass(eq=False)
class LinkedCall:
    """One answered call and where it stands."""

    facts: ModelCall
    """Without the conversation and the tokens."""
    answer: CallAnswer
    answer_turn: Turn
    order: int
    """Among the answered calls, from 0."""
    messages: tuple[bytes, ...]
    n_system: int
    head: tuple[tuple[bytes, ...], bytes]
    """Keys of the system prompt's messages, and the tools."""
    stretch: Stretch | None = None
    """None when the capture of its answer lacks something: such a call is a part of the story and is never trained."""
    parent: "LinkedCall | None" = None
    token_parent: "LinkedCall | None" = None
    drift: Drift | None = None
    children: list["LinkedCall"] = field(default_factory=list)
    twins: list["LinkedCall"] = field(default_factory=list)
    """All calls with this request, itself included, in order; one list that they share. A retry makes two."""

    @property
    def id(self) -> str:
        return self.facts.call_id

    @property
    def n_turns(self) -> int:
        """Of the request, the system prompt not counted."""
        return len(self.messages) - self.n_system

    def upwards(self) -> Iterator["LinkedCall"]:
        """Itself, its parent, and so on."""
        call: LinkedCall | None = self
        while call is not None:
            yield call
            call = call.parent

    def token_path(self) -> list["LinkedCall"]:
        """Complete calls whose tokens begin this one's prompt, the first one first, and itself."""
        path = []
        call: LinkedCall | None = self
        while call is not None:
            path.append(call)
            call = call.token_parent
        return path[::-1]


@dataclass(frozen=True)
class _Parent:
    call: LinkedCall
    anchor: LinkedCall | None
    """It, or its nearest forebear with tokens."""
    agreement: int | None = None
    """Tokens that the prompt and the anchor's share from the start; None for one that was not compared."""
    is_edited: bool = False
    unaltered: LinkedCall | None = None
    """Of an edited history: the call whose conversation stands in it as it was."""


class Lineage:
    """The answered calls of one session, added in the order they ended (any order with parents first will do)."""

    def __init__(self, turns: TurnMemory, decode: Decode | None = None) -> None:
        self.calls: list[LinkedCall] = []
        self.turns = turns
        self._decode = decode
        self._index = ConversationIndex(turns)
        self._by_id: dict[str, LinkedCall] = {}
        self._by_tool_turn: dict[bytes, LinkedCall] = {}
        """Calls by the key of their answer, where it calls tools."""

    def add(self, captured: CapturedCall, facts: ModelCall, answer: CallAnswer, tokens: CallTokens | None) -> None:
        """Raises ValueError for a call id that was added before."""
        if facts.call_id in self._by_id:
            raise ValueError(f"two calls have the id {facts.call_id!r}")
        place = self._index.place(captured.messages, captured.tools)
        n_system, tools = self.turns.split_system(captured.messages), captured.tools or b"[]"
        call = LinkedCall(
            facts,
            answer,
            answer_turn(answer),
            len(self.calls),
            captured.messages,
            n_system,
            (tuple(self.turns.read(raw).key for raw in captured.messages[:n_system]), tools),
        )
        self._join_twins(call, place)
        parent = self._parent_of(call, place, captured.tokens.prompt_ids if captured.tokens else None)
        if parent is not None:
            call.parent = parent.call
            parent.call.children.append(call)
        if tokens is not None and tokens.logprobs_S is not None:
            if parent is not None and parent.anchor is not None:
                self._link_tokens(call, parent, parent.anchor, tokens.prompt_ids)
            after = call.token_parent.stretch if call.token_parent else None
            call.stretch = Stretch.lay(tokens.prompt_ids, tokens.ids_S, tokens.logprobs_S, after=after)
        self._note(call)

    def _note(self, call: LinkedCall) -> None:
        self.calls.append(call)
        self._by_id[call.id] = call
        self._index.add(call.id, call.messages, call.answer_turn, call.head[1])
        if call.answer_turn.calls_tools:
            self._by_tool_turn[call.answer_turn.key] = call

    def _join_twins(self, call: LinkedCall, place: Place) -> None:
        is_repeat = place.asked_by is not None and place.n_asked == len(call.messages)
        call.twins = self._by_id[place.asked_by].twins if is_repeat and place.asked_by else []
        call.twins.append(call)

    def _parent_of(self, call: LinkedCall, place: Place, prompt: Ids | None) -> _Parent | None:
        edited = self._edited(call, place)
        if edited is not None:
            unaltered = self._continued(place.parents, prompt).anchor if place.parents else None
            return _Parent(edited, _anchor(edited), is_edited=True, unaltered=unaltered)
        return self._continued(place.parents, prompt) if place.parents else None

    def _edited(self, call: LinkedCall, place: Place) -> LinkedCall | None:
        """The call whose history was altered to make this request; None when it goes on from what was said."""
        later = [self.turns.read(raw) for raw in call.messages[place.n_parent :]]
        foreign = [turn for turn in later if turn.role == "assistant"]
        if foreign and foreign[-1].calls_tools and foreign[-1].key in self._by_tool_turn:
            return self._by_tool_turn[foreign[-1].key]
        if place.asked_by is not None and place.n_parent < place.n_asked < len(call.messages):
            return self._by_id[place.asked_by]
        if not foreign or place.known_by is None:
            return None
        # An answer that was never kept may stand between it and the only one who shares its beginning: that is no edit.
        is_parent = place.known_by in {candidate.call_id for candidate in place.parents}
        return None if is_parent else self._by_id[place.known_by]

    def _continued(self, candidates: Sequence[Candidate], prompt: Ids | None) -> _Parent:
        """Of calls that gave the same answer to the same messages, the one that was gone on with.

        The longest whose tokens begin the prompt: a stream that was cut and its retry may both do. Where none does,
        the one that shares most with it; without tokens, the first.
        """
        calls = [self._by_id[candidate.call_id] for candidate in candidates]
        found = [_Parent(call, _anchor(call)) for call in calls]
        if prompt is None:
            return found[0]
        for parent in sorted(found, key=lambda parent: -_length(parent.anchor)):
            stretch = parent.anchor and parent.anchor.stretch
            if stretch and stretch.may_begin(prompt) and stretch.agreement(prompt) == stretch.n_full:
                return replace(parent, agreement=stretch.n_full)
        if len(found) == 1:
            return found[0]
        compared = [replace(parent, agreement=_agreement(parent.anchor, prompt)) for parent in found[:_MOST_COMPARED]]
        return max(compared, key=lambda parent: parent.agreement or 0)

    def _link_tokens(self, call: LinkedCall, parent: _Parent, anchor: LinkedCall, prompt: Ids) -> None:
        stretch = anchor.stretch
        assert stretch is not None
        position = stretch.agreement(prompt) if parent.agreement is None else parent.agreement
        if position == stretch.n_full and not parent.is_edited:
            call.token_parent = anchor
            return
        # Equal tokens may stand for other pictures: of an edited history only what was said in both is shared.
        n_same = self._common_turns(call, anchor) if parent.is_edited else call.n_turns
        shared = [c for c in anchor.token_path() if _length(c) <= position and c.n_turns < n_same]
        if parent.unaltered and _agreement(parent.unaltered, prompt) == _length(parent.unaltered):
            shared.append(parent.unaltered)
        call.token_parent = max(shared, key=_length, default=None)
        if call.token_parent is anchor:
            return
        if position == stretch.n_full:
            position = _length(call.token_parent)
        call.drift = Drift(
            call_id=call.id,
            parent_call_id=anchor.id,
            position=position,
            tokens=stretch.n_full - position,
            sampled_tokens=sum(_sampled_from(c.stretch, position) for c in anchor.token_path() if c.stretch),
            reason=self._reason(call, parent, prompt, position),
        )

    def _reason(self, call: LinkedCall, parent: _Parent, prompt: Ids, position: int) -> DriftReason:
        anchor = parent.anchor
        assert anchor is not None
        if anchor.head != call.head:
            return DriftReason.SYSTEM_CHANGED
        if parent.is_edited:
            return DriftReason.HISTORY_EDITED
        broken = next((c for c in anchor.token_path() if _length(c) > position), anchor)
        stretch = broken.stretch
        assert stretch is not None
        assert anchor.stretch is not None
        echo_at = call.n_system + broken.n_turns
        echoed = self.turns.read(call.messages[echo_at]) if echo_at < len(call.messages) else None
        return reason_of(
            Break(
                seen=anchor.stretch.full,
                prompt=prompt,
                position=position,
                start=stretch.n_prompt,
                end=stretch.n_full,
                answer=broken.answer,
                keeps_reasoning=bool(echoed and echoed.reasoning),
            ),
            self._decode,
        )

    def _common_turns(self, call: LinkedCall, other: LinkedCall) -> int:
        """Of the beginning of the first one's messages that the second one's messages and answer share."""
        own = (self.turns.read(raw).key for raw in call.messages[call.n_system :])
        said = [*(self.turns.read(raw).key for raw in other.messages[other.n_system :]), other.answer_turn.key]
        return next(
            (n for n, (a, b) in enumerate(zip(own, said, strict=False)) if a != b), min(call.n_turns, len(said))
        )


def _anchor(call: LinkedCall) -> LinkedCall | None:
    return next((forebear for forebear in call.upwards() if forebear.stretch is not None), None)


def _length(call: LinkedCall | None) -> int:
    return call.stretch.n_full if call and call.stretch else 0


def _agreement(call: LinkedCall | None, prompt: Ids) -> int:
    return call.stretch.agreement(prompt) if call and call.stretch else 0


def _sampled_from(stretch: Stretch, position: int) -> int:
    return max(0, stretch.n_full - max(position, stretch.n_prompt))
