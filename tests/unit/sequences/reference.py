"""What must be true of any session's sequences, said again without the index, the tapes or the trees: all pairs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gym_core.capture.recorder import CallTokens, CapturedCall
from gym_core.capture.sequences import Piece, SessionSequences
from gym_core.types.sample import DriftReason
from gym_core.types.wire import JsonObject
from tests.fakes.captured import pieces_of

Words = tuple[object, ...]


@dataclass(frozen=True)
class Plain:
    """One call as lists."""

    id: str
    order: int
    head: object
    asked: list[Words]
    said: Words
    images: list[str]
    prompt: list[int]
    sampled: list[int]
    logprobs: list[float]
    is_answered: bool
    is_complete: bool

    @property
    def full(self) -> list[int]:
        return self.prompt + self.sampled


def plain(order: int, call: CapturedCall) -> Plain:
    messages = [json.loads(raw) for raw in call.messages]
    turns = [_words(message) for message in messages if message["role"] != "system"]
    answer = call.facts["answer"]
    assert isinstance(call.tokens, CallTokens)
    assert call.tokens.logprobs_S is not None
    return Plain(
        id=call.facts["call_id"],
        order=order,
        head=([_words(message) for message in messages if message["role"] == "system"], call.tools),
        asked=turns,
        said=_answer_words(answer) if answer else (),
        images=[p["image_url"]["url"][7:] for m in messages for p in _parts(m) if p["type"] == "image_url"],
        prompt=call.tokens.prompt_ids.tolist(),
        sampled=call.tokens.ids_S.tolist(),
        logprobs=call.tokens.logprobs_S.tolist(),
        is_answered=call.facts["outcome"] == "answered",
        is_complete=call.facts["outcome"] == "answered" and call.facts["gaps"] == [],
    )


def _parts(message: JsonObject) -> list[JsonObject]:
    return message["content"] if isinstance(message.get("content"), list) else []


def _words(message: JsonObject) -> Words:
    content = message.get("content")
    parts = [(p.get("text"), (p.get("image_url") or {}).get("url")) for p in _parts(message)]
    if isinstance(content, str):
        parts = [(content, None)]
    calls = [
        (c["id"], c["function"]["name"], str(json.loads(c["function"]["arguments"])))
        for c in message.get("tool_calls", ())
    ]
    return message["role"], [p for p in parts if p[0] or p[1]], calls, message.get("tool_call_id")


def _answer_words(answer: JsonObject) -> Words:
    calls = [(c["id"], c["name"], str(json.loads(c["arguments"]))) for c in answer["tool_calls"]]
    return "assistant", [(answer["content"], None)] if answer["content"] else [], calls, None


def check(calls: Sequence[CapturedCall], sequences: SessionSequences) -> None:
    by_id = {call.id: call for call in (plain(n, c) for n, c in enumerate(calls))}
    _check_each_token_is_trained_once(by_id, sequences)
    for piece in pieces_of(sequences):
        _check_piece(by_id, piece)
    _check_branches(by_id, sequences)
    for call in by_id.values():
        if call.is_complete:
            _check_link(by_id, sequences, call)
    summary = sequences.summary
    assert summary.calls == sum(call.is_complete for call in by_id.values())
    assert summary.incomplete_calls == sum(call.is_answered and not call.is_complete for call in by_id.values())
    assert summary.sampled_tokens == sum(len(call.sampled) for call in by_id.values() if call.is_complete)
    assert summary.pieces == len(list(pieces_of(sequences)))
    untrained = {call.call_id for call in sequences.untrained}
    assert untrained == {call.id for call in by_id.values() if not call.is_complete}


def _check_each_token_is_trained_once(by_id: dict[str, Plain], sequences: SessionSequences) -> None:
    trained = [span.call.call_id for piece in pieces_of(sequences) for span in piece.spans if span.is_trained]
    with_tokens = [name for name in trained if by_id[name].sampled]
    assert sorted(with_tokens) == sorted(call.id for call in by_id.values() if call.is_complete and call.sampled)
    assert len(set(trained)) == len(trained)


def _check_piece(by_id: dict[str, Plain], piece: Piece) -> None:
    ids, mask, logprobs = piece.token_ids.tolist(), piece.loss_mask.tolist(), piece.logprobs.tolist()
    expected_mask, expected_logprobs = [0] * len(ids), [0.0] * len(ids)
    images = [image.sha256 for image in piece.images]
    for span in piece.spans:
        call = by_id[span.call.call_id]
        assert call.is_complete
        assert ids[: span.start] == call.prompt, "what the engine said it saw"
        assert ids[span.start : span.end] == call.sampled
        assert images[: len(call.images)] == call.images, "no picture is missing, swapped or out of order"
        if span.is_trained:
            expected_mask[span.start : span.end] = [1] * len(call.sampled)
            expected_logprobs[span.start : span.end] = call.logprobs
    last = by_id[piece.last_call.call_id]
    assert (ids, images) == (last.full, last.images)
    assert (mask, logprobs) == (expected_mask, expected_logprobs)
    assert any(mask)
    assert not piece.token_ids.flags.writeable
    assert np.isfinite(piece.logprobs).all()


def _check_branches(by_id: dict[str, Plain], sequences: SessionSequences) -> None:
    answered = {call.id for call in by_id.values() if call.is_answered}
    assert {name for branch in sequences.branches for name in branch.call_ids} == answered
    assert len({branch.call_ids for branch in sequences.branches}) == len(sequences.branches)
    assert sum(branch.label == "main" for branch in sequences.branches) <= 1
    for branch in sequences.branches:
        orders = [by_id[name].order for name in branch.call_ids]
        assert orders == sorted(orders)
        brought = {image.call_id for piece in branch.pieces for image in piece.images}
        assert brought <= set(branch.call_ids)


def _check_link(by_id: dict[str, Plain], sequences: SessionSequences, call: Plain) -> None:
    """The call before it in its sequence is the one that all pairs would find; where none is, the record says why."""
    earlier = [other for other in by_id.values() if other.order < call.order and other.is_answered]
    content = [other for other in earlier if [*other.asked, other.said] == call.asked[: len(other.asked) + 1]]
    deepest = max((len(other.asked) for other in content), default=-1)
    parents = [other for other in content if len(other.asked) == deepest]
    drift = next((drift for drift in sequences.drifts if drift.call_id == call.id), None)
    if drift is not None:
        _check_drift(by_id[drift.parent_call_id], call, drift.position, drift.tokens, drift.reason)
    if not all(other.is_complete for other in content):
        return
    matches = [len(other.full) for other in parents if other.full == call.prompt[: len(other.full)]]
    found = {_before(piece, call.id) for piece in pieces_of(sequences)} - {None}
    if matches and drift is None and found:
        assert {len(by_id[name].full) for name in found if name} == {max(matches)}
    if parents and not matches:
        assert drift is not None
    if drift is not None and drift.reason is DriftReason.RERENDERED:
        assert parents
        assert not matches


def _check_drift(parent: Plain, call: Plain, position: int, tokens: int, reason: DriftReason) -> None:
    n = min(len(parent.full), len(call.prompt))
    same = next((i for i in range(n) if parent.full[i] != call.prompt[i]), n)
    assert position + tokens == len(parent.full)
    if reason is DriftReason.HISTORY_EDITED and same == len(parent.full):
        assert position <= same
    else:
        assert position == same
        assert position < len(parent.full)
    assert (reason is DriftReason.SYSTEM_CHANGED) == (parent.head != call.head)


def _before(piece: Piece, call_id: str) -> str | None:
    """The call before one in a piece; "" when it is the first, None when it is not there."""
    names = [span.call.call_id for span in piece.spans]
    at = names.index(call_id) if call_id in names else None
    return None if at is None else names[at - 1] if at else ""
