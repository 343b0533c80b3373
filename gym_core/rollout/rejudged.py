"""What a second grading changed: a rejudged run beside the run whose answers it graded."""

from collections.abc import Iterator

from gym_core.rollout.saved import SavedRun
from gym_core.types.rollout import RolloutKey
from gym_core.types.verification import Verification
from gym_core.types.wire import Wire


class GradeChange(Wire):
    task_id: str
    repeat: int
    before: str
    """In words, such as "1 (equivalent)" or "masked (judge_failed)"."""
    after: str
    reward_before: float | None
    reward_after: float | None


class RejudgeReport(Wire):
    """`X_rejudged-NAME_changes.json`."""

    run: str
    rejudged: str
    rows: int = 0
    """In both files."""
    missing: int = 0
    """Still to be judged: the same command goes on."""
    raised: int = 0
    """Rows whose reward went up."""
    lowered: int = 0
    graded: int = 0
    """Rows that were masked and have a reward now."""
    masked: int = 0
    """Rows that had a reward and are masked now."""
    reworded: int = 0
    """Rows with another verdict, other shaping, or another reason for the mask, and the same reward."""
    changes: list[GradeChange] = []

    @property
    def changed(self) -> int:
        return len(self.changes)


def compare_grades(before: SavedRun, after: SavedRun) -> RejudgeReport:
    """Reads both files once. Raises ConfigError for a damaged one."""
    grades = {key: grade for key, _, grade in _grades(before)}
    changes: list[GradeChange] = []
    counts = dict.fromkeys(("raised", "lowered", "graded", "masked", "reworded"), 0)
    rows = 0
    for key, task_id, now in _grades(after):
        old = grades.get(key)
        if old is None:
            continue
        rows += 1
        kind = _kind_of(old, now)
        if kind is None:
            continue
        counts[kind] += 1
        changes.append(
            GradeChange(
                task_id=task_id,
                repeat=key.repeat,
                before=words_of(old),
                after=words_of(now),
                reward_before=old.reward,
                reward_after=now.reward,
            )
        )
    return RejudgeReport(
        run=str(before.files.rollouts),
        rejudged=str(after.files.rollouts),
        rows=rows,
        missing=len(grades) - rows,
        changes=changes,
        **counts,
    )


def words_of(grade: Verification) -> str:
    """A grade in a few words. Its verdict is a judge's, and as such not to be trusted on a terminal."""
    verdict = grade.details.get("judge_verdict")
    why = grade.failure.kind.value if grade.failure else verdict if isinstance(verdict, str) else None
    terms = "".join(f" {value:+g} {name}" for name, value in sorted(grade.shaping.items()))
    what = "masked" if grade.reward is None else f"{grade.reward:g}{terms}"
    return f"{what} ({why})" if why else what


def _kind_of(old: Verification, now: Verification) -> str | None:
    if words_of(old) == words_of(now):
        return None
    if old.reward is None:
        return "graded" if now.reward is not None else "reworded"
    if now.reward is None:
        return "masked"
    if now.reward == old.reward:
        return "reworded"
    return "raised" if now.reward > old.reward else "lowered"


def _grades(run: SavedRun) -> Iterator[tuple[RolloutKey, str, Verification]]:
    for record in run.outlines():
        yield record.key, record.task.id.task_id, record.verification
