"""The training samples of one rollout: its session's sequences with the reward, the pictures, and what speaks against
training on them.

Blocking: reads the session's captures and each picture. Callers in an event loop use a thread.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from gym_core.capture.images import AssetStore
from gym_core.capture.recorder import CapturedCall, capture_path, read_captured
from gym_core.capture.sequences import NO_ANSWER, UNREADABLE, Branch, CallSpan, Piece, SessionSequences, join
from gym_core.export.constraint import is_constrained
from gym_core.export.mask import MaskReason, rollout_masked
from gym_core.export.pictures import PlacedPictures, place_pictures
from gym_core.types.model_call import CallOutcome, EndpointReport
from gym_core.types.rollout import RolloutRecord
from gym_core.types.sample import BranchLabel, SampledSpan, SequenceSummary, TrainingSample

Branches = Literal["main", "all"]

TRUNCATED = "length"
"""Finish reason of an answer that a token limit cut."""
_PLUMBING = frozenset({"stream", "stream_options", "logprobs", "top_logprobs", "return_token_ids", "include_reasoning"})
"""Sent with a call, and nothing that its tokens depend on."""
_DELIVERED = frozenset({BranchLabel.MAIN, BranchLabel.COMPACTION})
_HOLES = frozenset({CallOutcome.LOST.value, UNREADABLE, NO_ANSWER})
"""Calls of which nobody can say where they belong."""


class NoSamples(StrEnum):
    """Why a rollout has no sample at all."""

    NO_CAPTURE = "no_capture"
    """No file with its model calls: nothing was played, the folder was not copied along, or it was made without."""
    DAMAGED_CAPTURE = "damaged_capture"
    WRONG_CAPTURE = "wrong_capture"
    """The file of its name holds the calls of another session."""
    CAPTURE_INCOMPLETE = MaskReason.CAPTURE_INCOMPLETE.value
    """As the mask reason, with no answered call in what is here."""
    NO_ANSWERED_CALL = "no_answered_call"
    NO_TOKEN_IDS = "no_token_ids"
    """No answered call has all of its token ids and log-probabilities."""
    NO_SEQUENCE = "no_sequence"
    """None of the branches that were asked for has a token to train."""


@dataclass(frozen=True)
class SessionReading:
    """What a rollout's captures hold for training."""

    summary: SequenceSummary | None
    """None when no answered call is there; with `calls` 0 when none of those was whole."""
    samples: Sequence[TrainingSample]
    missing: NoSamples | None = None
    """Why there are no samples; None when there are."""


def read_session(
    record: RolloutRecord,
    captures_dir: Path,
    assets: AssetStore,
    *,
    endpoint: EndpointReport | None = None,
    branches: Branches = "main",
) -> SessionReading:
    """Sequences of a rollout's session in numbers, and its samples. A sample is masked, never dropped.

    "main" gives the main branch, the parts of it that were compacted away, and what may be the main branch when nobody
    can tell; "all" every branch. `endpoint` is the run's look at its endpoint: without it the mode of the
    log-probabilities is unknown and placeholders are not checked.
    O(tokens): 0.08 s of CPU for 200 calls and 130,000 tokens. Raises OSError other than for a file that is not there.
    """
    capture = record.evidence.capture
    if capture is None:
        return SessionReading(None, (), NoSamples.NO_CAPTURE)
    response = record.evidence.response
    try:
        path = capture_path(captures_dir, capture.session_id)
        calls = _of_session(read_captured(path), capture.session_id)
        sequences = join(calls, final_answer=response.final_text if response else None)
    except FileNotFoundError:
        return SessionReading(None, (), NoSamples.NO_CAPTURE)
    except _OtherSession:
        return SessionReading(None, (), NoSamples.WRONG_CAPTURE)
    except ValueError:  # SegmentDamaged is one
        return SessionReading(None, (), NoSamples.DAMAGED_CAPTURE)
    summary = sequences.summary
    if not summary.calls:
        if summary.incomplete_calls:
            return SessionReading(summary, (), NoSamples.NO_TOKEN_IDS)
        has_holes = _has_holes(record, sequences)
        return SessionReading(None, (), NoSamples.CAPTURE_INCOMPLETE if has_holes else NoSamples.NO_ANSWERED_CALL)
    making = _Making(record, assets, endpoint, sequences)
    samples = [
        sample for number, branch in _delivered(sequences, branches) for sample in making.samples(number, branch)
    ]
    return SessionReading(summary, samples, None if samples else NoSamples.NO_SEQUENCE)


class _OtherSession(ValueError):
    """A capture file that was renamed, or swapped with another one."""


def _of_session(calls: Iterable[CapturedCall], session_id: str) -> Iterator[CapturedCall]:
    """Raises _OtherSession for a call that names another one."""
    for call in calls:
        if call.facts.get("session_id", session_id) != session_id:
            raise _OtherSession(f"a call of session {call.facts['session_id']!r} in the file of {session_id!r}")
        yield call


def _delivered(sequences: SessionSequences, branches: Branches) -> Iterator[tuple[int, Branch]]:
    for number, branch in enumerate(sequences.branches):
        if branches == "all" or branch.label in _DELIVERED or branch.mask_reason is not None:
            yield number, branch


@dataclass(frozen=True)
class _Making:
    """What the samples of one rollout share."""

    record: RolloutRecord
    assets: AssetStore
    endpoint: EndpointReport | None
    sequences: SessionSequences

    def samples(self, number: int, branch: Branch) -> Iterator[TrainingSample]:
        for index, piece in enumerate(branch.pieces):
            yield self._sample(number, branch, index, piece)

    def _sample(self, number: int, branch: Branch, index: int, piece: Piece) -> TrainingSample:
        record, last = self.record, piece.last_call
        pictures = place_pictures(piece, self.assets, self.endpoint.image_tokens if self.endpoint else None)
        mask_reason = self._mask_reason(branch, piece, pictures)
        trained = [span for span in piece.spans if span.is_trained and span.end > span.start]
        return TrainingSample(
            sample_id=f"{record.evidence.episode_id}.{number}.{index}",
            rollout_id=record.evidence.episode_id.rollout_id,
            attempt=record.evidence.episode_id.attempt,
            task_id=record.task.id,
            task_index=record.task_index,
            environment=record.environment,
            advantage_group=record.key.task_hash,
            repeat=record.key.repeat,
            branch=number,
            branch_label=branch.label,
            piece=index,
            token_ids=piece.token_ids.tolist(),
            loss_mask=piece.loss_mask.tolist(),
            logprobs=piece.logprobs.tolist(),
            images=list(pictures.images),
            calls=[_span_of(span) for span in piece.spans],
            drift=piece.drift,
            reward=record.verification.trainer_reward,
            reward_components=record.verification.trainer_components,
            mask=mask_reason is not None,
            mask_reason=mask_reason,
            is_truncated=bool(trained) and _finish_reason(trained[-1]) == TRUNCATED,
            logprobs_mode=self.endpoint.logprobs_mode if self.endpoint else "unknown",
            sampling={name: value for name, value in last.sampling.items() if name not in _PLUMBING},
        )

    def _mask_reason(self, branch: Branch, piece: Piece, pictures: PlacedPictures) -> str | None:
        failure = self.record.verification.failure
        if self.record.verification.is_masked and failure is not None:
            return rollout_masked(failure.kind)
        rules: Sequence[tuple[MaskReason, Callable[[], bool]]] = (
            (MaskReason.CAPTURE_INCOMPLETE, lambda: _has_holes(self.record, self.sequences)),
            (MaskReason.TEMPLATE_LEAK, lambda: self._leaks(piece)),
            (MaskReason.CONSTRAINED_SAMPLING, lambda: _has_constrained(piece)),
            (MaskReason.CALL_INCOMPLETE, lambda: self._lacks_a_call(branch)),
        )
        for reason, holds in rules:
            if holds():
                return reason.value
        if branch.mask_reason is not None:
            return branch.mask_reason
        if pictures.problem is not None:
            return pictures.problem.value
        return None if piece.loss_mask.any() else MaskReason.NO_TRAINED_TOKENS.value

    def _leaks(self, piece: Piece) -> bool:
        if self.endpoint is not None and self.endpoint.leaks_list_content:
            return True
        return any(MaskReason.TEMPLATE_LEAK in span.call.notes for span in piece.spans)

    def _lacks_a_call(self, branch: Branch) -> bool:
        incomplete = {call.call_id for call in self.sequences.untrained}
        return any(call_id in incomplete for call_id in branch.call_ids)


def _has_holes(record: RolloutRecord, sequences: SessionSequences) -> bool:
    """A file that was cut between two calls reads as a whole one: only the session knew how many there were."""
    capture = record.evidence.capture
    complete = capture is not None and capture.capture_complete and capture.calls == sequences.read
    return not complete or any(call.why in _HOLES for call in sequences.untrained)


def _has_constrained(piece: Piece) -> bool:
    return any(span.is_trained and is_constrained(span.call.sampling) for span in piece.spans)


def _span_of(span: CallSpan) -> SampledSpan:
    temperature = span.call.sampling.get("temperature")
    return SampledSpan(
        call_id=span.call.call_id,
        start=span.start,
        end=span.end,
        is_trained=span.is_trained,
        finish_reason=_finish_reason(span),
        temperature=float(temperature) if isinstance(temperature, int | float) else None,
        policy_version=span.call.policy_version,
        policy_version_end=span.call.policy_version_end,
    )


def _finish_reason(span: CallSpan) -> str:
    return span.call.answer.finish_reason if span.call.answer else ""
