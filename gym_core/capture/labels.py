"""The branches of a session, and what each one is to its rollout.

The main branch ends in the call that gave the final answer: the last whose text equals it. Where none does, only the
first conversation counts, and those that start anew with its system prompt and tools: the last call without tool calls,
else the last call of the longest of them. A call that looks like a title (no tools, one user turn, nothing after it) is
taken only when no other fits. When one request was answered more than once, none of the
answers was gone on with and the final answer's text does not decide, nobody can tell which one the harness used: all of
them are retries with `mask_reason` "ambiguous_retry", and none is the main branch.

Every other branch gets the first label that fits:

- RETRY: its last call was asked again with the same messages, and nothing went on from its answer.
- COMPACTION: its last call's answer is told to a later conversation that starts anew (it is one of its turns, or a part
  of its first messages); or it has the main branch's system prompt and tools and ended before that later conversation,
  which is the main one, began.
- TITLE: one call, no tools, one user turn, no earlier answer, and another system prompt or tools than the main branch.
- SUBAGENT: another system prompt or other tools, while the main branch was open: begun after it, and ended before its
  last call or waited for by that call's tools.
- SIDE: anything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gym_core.capture.conversation import TurnMemory
from gym_core.capture.lineage import Lineage, LinkedCall
from gym_core.types.sample import BranchLabel

AMBIGUOUS_RETRY = "ambiguous_retry"
_MOST_SUMMARIES = 8
"""Latest calls that are looked at for one whose answer a new conversation starts from."""
_SHORTEST_SUMMARY = 16
"""Characters; a shorter answer stands in other texts by chance."""


@dataclass(frozen=True)
class LabelledPath:
    """From a first call to a last one, each the parent of the next."""

    calls: tuple[LinkedCall, ...]
    label: BranchLabel
    mask_reason: str | None = None

    @property
    def last(self) -> LinkedCall:
        return self.calls[-1]


@dataclass(frozen=True)
class _Story:
    """What the labels are told by."""

    main: Sequence[LinkedCall]
    """Empty when there is no main branch."""
    main_orders: frozenset[int]
    summaries: dict[int, LinkedCall]
    """By the order of a call that summed up: the first call of the conversation that starts from it."""


def labelled_paths(lineage: Lineage, final_answer: str | None) -> list[LabelledPath]:
    """The main path first, then one to each call that nothing went on from, in the order of those calls."""
    final = _final_call(lineage, final_answer)
    main = _path_to(final) if final else ()
    story = _Story(main, frozenset(call.order for call in main), _summaries(lineage))
    paths = [LabelledPath(main, BranchLabel.MAIN)] if main else []
    for call in lineage.calls:
        if not call.children and call is not final:
            path = _path_to(call)
            mask_reason = AMBIGUOUS_RETRY if _is_ambiguous(call, final) else None
            paths.append(LabelledPath(path, _label(path, story, lineage.turns), mask_reason))
    return paths


def _is_ambiguous(call: LinkedCall, final: LinkedCall | None) -> bool:
    return len(call.twins) > 1 and not any(twin.children or twin is final for twin in call.twins)


def _path_to(call: LinkedCall) -> tuple[LinkedCall, ...]:
    return tuple(call.upwards())[::-1]


def _final_call(lineage: Lineage, final_answer: str | None) -> LinkedCall | None:
    """The call that gave the final answer; None where nobody can tell which one did, and without calls."""
    if not lineage.calls:
        return None
    final = (final_answer or "").strip()
    told = [call for call in lineage.calls if final and call.answer.content.strip() == final]
    own = _of_first_conversation(lineage)
    plain = [call for call in own if not call.answer.tool_calls]
    found = told or plain or [max(own, key=lambda call: (len(call.messages), call.order))]
    chosen = ([call for call in found if not _looks_like_title(call, lineage.turns)] or found)[-1]
    rivals = [call for call in chosen.twins if call in told] if told else chosen.twins
    continued = [call for call in rivals if call.children]
    if continued:
        return continued[-1]
    return chosen if len(rivals) == 1 else None


def _of_first_conversation(lineage: Lineage) -> list[LinkedCall]:
    """Calls that belong to the first conversation, or have its system prompt and tools as one that starts anew has."""
    first = next((call for call in lineage.calls if not _looks_like_title(call, lineage.turns)), lineage.calls[0])
    roots: list[LinkedCall] = []
    for call in lineage.calls:
        roots.append(roots[call.parent.order] if call.parent else call)
    root = roots[first.order]
    return [call for call in lineage.calls if call.head == first.head or roots[call.order] is root]


def _looks_like_title(call: LinkedCall, turns: TurnMemory) -> bool:
    asked = call.messages[call.n_system :]
    return call.head[1] == b"[]" and len(asked) == 1 and turns.read(asked[0]).role == "user" and not call.children


def _summaries(lineage: Lineage) -> dict[int, LinkedCall]:
    """Calls whose answer begins a new conversation, by their order."""
    found: dict[int, LinkedCall] = {}
    by_key: dict[bytes, LinkedCall] = {}
    candidates: list[LinkedCall] = []
    for call in lineage.calls:
        if call.parent is None and candidates:
            source = _summary_of(call, by_key, candidates[-_MOST_SUMMARIES:], lineage.turns)
            if source is not None and source.order not in found:
                found[source.order] = call
        if not call.children and not call.answer.tool_calls and call.answer.content.strip():
            candidates.append(call)
            by_key[call.answer_turn.key] = call
    return found


def _summary_of(
    first: LinkedCall, by_key: dict[bytes, LinkedCall], candidates: Sequence[LinkedCall], turns: TurnMemory
) -> LinkedCall | None:
    told = [turns.read(raw) for raw in first.messages]
    for turn in told:
        if turn.role == "assistant" and turn.key in by_key:
            return by_key[turn.key]
    for call in reversed(candidates):
        text = call.answer.content.strip()
        if len(text) >= _SHORTEST_SUMMARY and any(text in turn.text for turn in told):
            return call
    return None


def _label(path: Sequence[LinkedCall], story: _Story, turns: TurnMemory) -> BranchLabel:
    last = path[-1]
    main = story.main
    if len(last.twins) > 1:
        return BranchLabel.RETRY
    if last.order in story.summaries or _was_summed_up(path, story):
        return BranchLabel.COMPACTION
    differs = not main or last.head != main[-1].head
    if len(path) == 1 and differs and _looks_like_title(last, turns):
        return BranchLabel.TITLE
    own = [call for call in path if call.order not in story.main_orders]
    if main and differs and own and main[0].order < own[0].order:
        was_open = last.order < main[-1].order or main[-1].answer.tool_calls
        return BranchLabel.SUBAGENT if was_open else BranchLabel.SIDE
    return BranchLabel.SIDE


def _was_summed_up(path: Sequence[LinkedCall], story: _Story) -> bool:
    """Whether it is an earlier part of the main conversation, which starts anew from a summary."""
    if not story.main or path[0] is story.main[0] or path[-1].head != story.main[0].head:
        return False
    starts = [
        first for first in story.summaries.values() if first is story.main[0] or first.order < story.main[0].order
    ]
    return any(path[-1].order < first.order for first in starts)
