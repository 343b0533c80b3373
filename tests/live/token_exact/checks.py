"""The proof, over all sessions of a leg: nothing of what the engine saw and sampled is missing, doubled or altered."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gym_core.types.model_call import CallOutcome, ModelCall
from gym_core.types.sample import TrainingSample
from tests.live.token_exact.drift_checks import check_drifts
from tests.live.token_exact.engine_log import IS_ASKED_AGAIN, Fault, Seen
from tests.live.token_exact.evidence import Leg, Session
from tests.live.token_exact.findings import Findings
from tests.live.token_exact.picture_checks import check_pictures
from tests.live.token_exact.teacher import Teacher


def check_leg(leg: Leg, teacher: Teacher) -> Findings:
    """All but the recomputed log-probabilities."""
    found = Findings()
    found.counts["sessions"] = len(leg.sessions)
    check_log(leg, found)
    for session in leg.sessions:
        check_once(session, found)
        for sample in session.samples:
            check_tokens(sample, leg, found)
            check_pictures(session, sample, leg, teacher, found)
        check_faults(session, leg, found)
        check_drifts(session, leg, teacher, found)
    return found


def check_log(leg: Leg, found: Findings) -> None:
    """Each answer of the engine is one call's, each call's is the engine's, and each attempt is accounted for."""
    log = leg.log
    calls = [call for session in leg.sessions for call in session.calls.values()]
    found.expect(not log.unmatched_calls, f"calls that the engine never answered so: {log.unmatched_calls}")
    found.expect(not log.unclaimed, f"{len(log.unclaimed)} answers of the engine are in no call")
    again = sum(max(0, call.attempts - 1) for call in calls)
    faults = log.count(*IS_ASKED_AGAIN)
    found.expect(again == faults, f"{faults} answers were broken, {again} were asked again")
    stalled, abandoned = log.count(Fault.STALL), _count(calls, CallOutcome.ABANDONED)
    found.expect(stalled == abandoned, f"{stalled} clients left, {abandoned} calls are recorded as abandoned")
    lost = sum(seen.fault is Fault.LOST_IDS and seen.is_whole for seen in log.entries)
    incomplete = sum(call.outcome is CallOutcome.ANSWERED and call.gaps != [] for call in calls)
    found.expect(lost == incomplete, f"{lost} answers lost an id, {incomplete} calls are incomplete")
    found.counts["calls"] += len(calls)
    found.counts["calls asked again after a fault"] += again
    found.counts["calls abandoned"] += abandoned
    found.counts["calls incomplete"] += incomplete
    found.counts["calls failed"] += _count(calls, CallOutcome.FAILED)
    found.counts["requests seen by the engine"] += len(log.entries)
    found.counts["calls with the exact prefix"] += sum("exact_prefix" in call.notes for call in calls)
    for call in calls:
        found.counts.update(f"note {note}" for note in call.notes)
    for call_id, seen in log.of_call.items():
        call = next(session.calls[call_id] for session in leg.sessions if call_id in session.calls)
        found.expect(call.images == seen.pictures, f"{call_id}: pictures are not those that the engine was sent")
        found.counts["pictures sent, of all calls"] += len(seen.pictures)


def _count(calls: Sequence[ModelCall], outcome: CallOutcome) -> int:
    return sum(call.outcome is outcome for call in calls)


def check_once(session: Session, found: Findings) -> None:
    trained: Counter[str] = Counter()
    for sample in session.samples:
        trained.update(span.call_id for span in sample.calls if span.is_trained)
        marked = [at for span in sample.calls if span.is_trained for at in range(span.start, span.end)]
        found.expect(
            marked == [at for at, one in enumerate(sample.loss_mask) if one],
            f"{sample.sample_id}: loss_mask is not just the trained spans",
        )
        found.counts["samples"] += 1
        found.counts["samples masked"] += sample.mask
        found.counts["tokens of samples"] += len(sample.token_ids)
        found.counts["samples of several calls"] += len(sample.calls) > 1
        found.counts[f"samples of branch {sample.branch_label}"] += 1
        if sample.mask_reason:
            found.counts[f"mask {sample.mask_reason}"] += 1
    complete = {call.call_id: call for call in session.complete() if call.token_ids}
    found.expect(trained == Counter(complete.keys()), f"{session.name}: trained {trained}, complete {list(complete)}")
    sampled = sum(len(call.token_ids or ()) for call in complete.values())
    in_masks = sum(sum(sample.loss_mask) for sample in session.samples)
    found.expect(sampled == in_masks, f"{session.name}: {sampled} tokens sampled, {in_masks} trained")
    summary = session.summary
    if found.expect(summary is not None, f"{session.name}: no summary") and summary is not None:
        found.expect(summary == session.record.evidence.sequences, f"{session.name}: the row's summary differs")
        found.expect(summary.sampled_tokens == sampled, f"{session.name}: {summary.sampled_tokens} in the summary")
        found.expect(summary.calls == len(session.complete()), f"{session.name}: {summary.calls} calls in the summary")
        found.expect(summary.pieces == len(session.samples), f"{session.name}: {summary.pieces} pieces in the summary")
    found.counts["sampled tokens, each trained once"] += sampled
    found.counts["calls trained"] += len(complete)


def check_tokens(sample: TrainingSample, leg: Leg, found: Findings) -> None:
    """Up to and with each answer in it, a sample is the engine's own prompt and sampled ids of that call."""
    logprobs = np.array(sample.logprobs, np.float32)
    for span in sample.calls:
        seen = leg.log.of_call.get(span.call_id)
        if not found.expect(seen is not None, f"{sample.sample_id}: {span.call_id} is not in the log") or seen is None:
            continue
        found.expect(span.start == len(seen.prompt_ids), f"{sample.sample_id}: {span.call_id} begins elsewhere")
        found.expect(
            sample.token_ids[: span.end] == seen.full, f"{sample.sample_id}: not what {span.call_id} saw and sampled"
        )
        told = np.array(seen.logprobs, np.float32) if span.is_trained else np.zeros(span.end - span.start, np.float32)
        found.expect(
            np.array_equal(logprobs[span.start : span.end], told), f"{sample.sample_id}: log-probs of {span.call_id}"
        )
    outside = logprobs[np.array(sample.loss_mask) == 0]
    found.expect(not outside.any(), f"{sample.sample_id}: log-probabilities outside the trained tokens")
    found.expect(sample.calls[-1].end == len(sample.token_ids), f"{sample.sample_id}: tokens after the last answer")


def check_faults(session: Session, leg: Leg, found: Findings) -> None:
    """What was not answered whole is in no sample, and a sample with a hole in its story is masked."""
    whole = {call.call_id for call in session.complete()}
    for sample in session.samples:
        strangers = [span.call_id for span in sample.calls if span.call_id not in whole]
        found.expect(not strangers, f"{sample.sample_id}: holds tokens of {strangers}")
    for call in session.calls.values():
        if call.outcome is CallOutcome.ABANDONED:
            found.expect(call.answer is None, f"{call.call_id}: abandoned, and yet answered")
            found.expect(bool(call.gaps), f"{call.call_id}: an abandoned call that lacks nothing")
            partial = next((seen for seen in leg.log.entries if _begins(seen, call)), None)
            found.expect(partial is not None, f"{call.call_id}: what came of it is not what the engine sent")


def _begins(seen: Seen, call: ModelCall) -> bool:
    came = call.token_ids or []
    return (
        seen.fault is Fault.STALL and seen.prompt_ids == call.prompt_token_ids and seen.sampled_ids[: len(came)] == came
    )
