"""What a replay of recorded calls came to: each rollout beside the one that it replays."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from gym_core.errors import FailureKind
from gym_core.rollout.rejudged import words_of
from gym_core.rollout.saved import SavedRun, has_recorded_calls
from gym_core.types.rollout import RolloutKey, RolloutRecord
from gym_core.types.verification import Verification
from gym_core.types.wire import Wire


class ReplayOutcome(StrEnum):
    SAME = "same"
    """The same calls, and the same grade."""
    DIVERGED = "diverged"
    """The harness asked what was never recorded."""
    REWARD_CHANGED = "reward_changed"
    """The calls are the recorded ones, the grade is another."""
    ENDED_EARLY = "ended_early"
    """The same grade after fewer calls."""
    ASKED_AGAIN = "asked_again"
    """The same grade, with recorded calls asked more often."""
    FAILED = "failed"
    """Masked by a fault of ours, in the replay alone."""
    NOT_RECORDED = "not_recorded"
    """Its calls are not there: nothing was replayed."""
    TO_DO = "to_do"


class ReplayedRollout(Wire):
    task_id: str
    repeat: int
    outcome: ReplayOutcome
    detail: str = ""
    """The reason in words: at which call, and what differed first."""


class ReplayReport(Wire):
    """`X_replayed-NAME_report.json`."""

    run: str
    replayed: str
    counts: dict[ReplayOutcome, int]
    rollouts: list[ReplayedRollout]

    @property
    def is_same(self) -> bool:
        """Whether all that could be replayed, and something, came out as it was."""
        left = set(self.counts) - {ReplayOutcome.SAME, ReplayOutcome.NOT_RECORDED}
        return not left and bool(self.counts.get(ReplayOutcome.SAME))


@dataclass(frozen=True)
class _Played:
    """What of a rollout is compared; its trajectory is not held."""

    grade: Verification
    calls: int
    task_id: str
    is_recorded: bool = True


def compare_replay(before: SavedRun, after: SavedRun | None, *, limit: int | None = None) -> ReplayReport:
    """Of the rollouts that a replay of the first `limit` plays. Reads both files once. `after` None: nothing is
    written yet. Raises ConfigError."""
    replays = {record.key: _played(record) for record in after.outlines()} if after else {}
    found: list[ReplayedRollout] = []
    recorded = 0
    for record in before.outlines():
        old = _played(record, before)
        recorded += old.is_recorded
        if limit is not None and recorded > limit:
            break
        found.append(_compared(record.key, old, replays.get(record.key)))
    return ReplayReport(
        run=str(before.files.rollouts),
        replayed=str(after.files.rollouts) if after else "",
        counts=dict(Counter(rollout.outcome for rollout in found)),
        rollouts=found,
    )


def _played(record: RolloutRecord, run: SavedRun | None = None) -> _Played:
    capture = record.evidence.capture
    is_recorded = run is None or has_recorded_calls(record, run)
    return _Played(record.verification, capture.calls if capture else 0, record.task.id.task_id, is_recorded)


def _compared(key: RolloutKey, old: _Played, new: _Played | None) -> ReplayedRollout:
    outcome, detail = _outcome(old, new)
    return ReplayedRollout(task_id=old.task_id, repeat=key.repeat, outcome=outcome, detail=detail)


def _outcome(old: _Played, new: _Played | None) -> tuple[ReplayOutcome, str]:
    if not old.is_recorded:
        return ReplayOutcome.NOT_RECORDED, "its model calls are not there"
    if new is None:
        return ReplayOutcome.TO_DO, ""
    failure = new.grade.failure
    if failure is not None and failure.kind is FailureKind.REPLAY_DIVERGED:
        return ReplayOutcome.DIVERGED, failure.reason
    if words_of(old.grade) != words_of(new.grade):
        change = f"{words_of(old.grade)} -> {words_of(new.grade)}"
        if new.grade.reward is None and failure is not None:
            return ReplayOutcome.FAILED, f"{change}: {failure.reason}"
        return ReplayOutcome.REWARD_CHANGED, change
    if new.calls != old.calls:
        outcome = ReplayOutcome.ENDED_EARLY if new.calls < old.calls else ReplayOutcome.ASKED_AGAIN
        return outcome, f"{old.calls} calls -> {new.calls}"
    return ReplayOutcome.SAME, ""
