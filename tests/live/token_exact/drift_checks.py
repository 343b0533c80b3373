"""Each place where the tokens of a conversation do not go on is said, at the right token and for the right reason."""

from collections import Counter
from collections.abc import Sequence

from gym_core.capture.recorder import read_captured
from gym_core.capture.sequences import join
from gym_core.types.sample import Drift, DriftReason, TrainingSample
from tests.live.token_exact.evidence import Leg, Session
from tests.live.token_exact.findings import Findings
from tests.live.token_exact.teacher import Teacher

_SAID_ANEW = frozenset({DriftReason.RETOKENIZED, DriftReason.REASONING_DROPPED, DriftReason.RERENDERED})
"""Breaks of the tokens where the conversation itself went on unaltered."""


def check_drifts(session: Session, leg: Leg, teacher: Teacher, found: Findings) -> None:
    drifts = {sample.drift.call_id: sample.drift for sample in session.samples if sample.drift}
    summary = session.summary
    if summary is not None:
        reasons = Counter(drift.reason for drift in drifts.values())
        found.expect(summary.drifts == dict(reasons), f"{session.name}: {summary.drifts} in the summary, {reasons}")
        tokens = sum(drift.tokens for drift in drifts.values())
        found.expect(
            summary.drifted_tokens == tokens, f"{session.name}: {summary.drifted_tokens}, not {tokens} drifted"
        )
    for drift in drifts.values():
        found.counts[f"drift {drift.reason}"] += 1
        found.counts["drifted tokens"] += drift.tokens
        _check_drift(session, drift, leg, teacher, found)
    _check_reasons(session, leg, teacher, found)
    for sample in session.samples:
        _check_beginning(session, sample, found)


def _check_drift(session: Session, drift: Drift, leg: Leg, teacher: Teacher, found: Findings) -> None:
    before, after = leg.log.of_call[drift.parent_call_id], leg.log.of_call[drift.call_id]
    shared = _common(before.full, after.prompt_ids)
    if drift.reason in _SAID_ANEW:
        found.expect(drift.position == shared, f"{drift.call_id}: breaks at {shared}, not {drift.position}")
        if drift.reason is DriftReason.RETOKENIZED:
            found.expect(_is_same_text(drift, leg, teacher), f"{drift.call_id}: another text is called re-tokenised")
    else:
        found.expect(drift.position <= shared, f"{drift.call_id}: breaks at {shared}, before {drift.position}")
    found.expect(drift.tokens == len(before.full) - drift.position, f"{drift.call_id}: {drift.tokens} tokens drifted")
    parent = next(s for s in session.samples for span in s.calls if span.call_id == drift.parent_call_id)
    sampled = sum(max(0, min(span.end, len(before.full)) - max(span.start, drift.position)) for span in parent.calls)
    found.expect(
        drift.sampled_tokens == sampled, f"{drift.call_id}: {drift.sampled_tokens} sampled ones, not {sampled}"
    )


def _check_reasons(session: Session, leg: Leg, teacher: Teacher, found: Findings) -> None:
    """Without a tokenizer a re-tokenised text may be called re-rendered. With one it may not."""
    for drift in join(read_captured(session.captures), decode=teacher.text).drifts:
        if drift.reason in _SAID_ANEW:
            found.counts[f"drift {drift.reason}, as a tokenizer tells"] += 1
            is_told = drift.reason is DriftReason.RETOKENIZED
            found.expect(is_told == _is_same_text(drift, leg, teacher), f"{drift.call_id}: {drift.reason} is not why")


def _is_same_text(drift: Drift, leg: Leg, teacher: Teacher) -> bool:
    before, after = leg.log.of_call[drift.parent_call_id], leg.log.of_call[drift.call_id]
    return teacher.text(after.prompt_ids).startswith(teacher.text(before.full))


def _check_beginning(session: Session, sample: TrainingSample, found: Findings) -> None:
    """A sequence that begins within a conversation says why, unless the calls before it are incomplete."""
    first = session.calls[sample.calls[0].call_id]
    is_continued = any(message["role"] == "assistant" for message in first.messages)
    earlier = [call for call in session.complete() if len(call.messages) < len(first.messages) and len(call.images) > 0]
    if is_continued and earlier:
        found.expect(sample.drift is not None, f"{sample.sample_id}: begins within a conversation and does not say why")


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
