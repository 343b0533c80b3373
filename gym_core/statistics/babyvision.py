"""The result table of the BabyVision paper (arXiv 2601.06521): mean and population standard deviation over passes,
overall, for each of its four types and for each subtype, in the paper's order.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from gym_core.statistics.outcome import Outcome, PlannedRollout
from gym_core.statistics.passes import average_passes, score_passes
from gym_core.types.metrics import PassScore
from gym_core.types.score_table import ScoreCell, ScoreColumn, ScoreRow, ScoreTable

LAYOUT: dict[str, dict[str, int]] = {
    "Fine-grained Discrimination": {
        "Find the different": 16,
        "Find the same": 17,
        "Find the shadow": 23,
        "Reconstruction": 14,
        "2D Pattern Completion": 20,
        "Pattern and Color Completion": 20,
        "Count Same Patterns": 35,
        "Count Clusters": 18,
    },
    "Visual Tracking": {
        "Maze": 20,
        "Connect the lines": 19,
        "Recognize numbers and letters": 23,
        "Metro map": 12,
        "Lines Observation": 9,
    },
    "Spatial Perception": {
        "3D Views": 27,
        "3D Cube Unfold": 12,
        "Paper Folding": 12,
        "3D Pattern Completion": 18,
        "Count 3D blocks": 22,
    },
    "Visual Pattern Recognition": {
        "Overlay Patterns": 17,
        "Logic Patterns": 14,
        "Rotation Patterns": 10,
        "Mirroring Patterns": 10,
    },
}
"""Type to subtype to its number of tasks."""

Kind = tuple[str, str]
"""Category and subtype; "" for all of them."""


@dataclass(frozen=True)
class TableRun:
    """What a column is made of."""

    name: str
    outcomes: Sequence[Outcome]
    planned: Sequence[PlannedRollout]
    task_names: Mapping[str, str] = field(default_factory=dict)
    """By task hash, where that differs from another run's: tasks of one name are one task of the table."""


def babyvision_table(runs: Sequence[TableRun]) -> ScoreTable:
    """A mean is over the passes that are finished, all rows of them written; over all passes while none is.

    Kinds of tasks that the benchmark does not have come last, subtypes within their type. O(outcomes).
    """
    columns = [_Column(run) for run in runs]
    found = {kind for column in columns for kind in column.tasks}
    rows = [
        ScoreRow(
            category=kind[0],
            subtype=kind[1],
            tasks=len(set().union(*(column.names(kind) for column in columns))),
            expected_tasks=_expected(kind),
            cells=[column.cell(kind) for column in columns],
        )
        for kind in [("", ""), *_in_order(found)]
    ]
    return ScoreTable(benchmark="babyvision", columns=[column.head for column in columns], rows=rows)


class _Column:
    """A run's rollouts by the kinds of their tasks."""

    def __init__(self, run: TableRun) -> None:
        self.tasks: dict[Kind, set[str]] = defaultdict(set)
        self._names = run.task_names
        self._rewards: dict[Kind, dict[tuple[str, int], float | None]] = defaultdict(dict)
        for outcome in run.outcomes:
            for kind in _kinds_of(outcome):
                self.tasks[kind].add(outcome.task_hash)
                self._rewards[kind][outcome.task_hash, outcome.repeat] = outcome.reward
        for rollout in run.planned:
            for kind in _kinds_of(rollout):
                self.tasks[kind].add(rollout.task_hash)
        self._repeats = {o.repeat for o in run.outcomes} | {p.repeat for p in run.planned}
        passes = self._passes(("", ""))
        finished = {score.repeat for score in passes if score.missing == 0}
        self._used = finished or {score.repeat for score in passes}
        self.head = ScoreColumn(
            name=run.name,
            tasks=len(self.tasks["", ""]),
            passes=len(self._used),
            unfinished_passes=len(passes) - len(finished),
            passes_are_finished=bool(finished),
        )

    def names(self, kind: Kind) -> set[str]:
        return {self._names.get(task_hash, task_hash) for task_hash in self.tasks[kind]}

    def cell(self, kind: Kind) -> ScoreCell:
        rewards = self._rewards[kind]
        scores = self._passes(kind)
        used = [score.model_copy(update={"missing": 0}) for score in scores if score.repeat in self._used]
        average = average_passes(used)
        measured_tasks = {task for (task, _), reward in rewards.items() if reward is not None}
        return ScoreCell(
            mean=average.mean if average else None,
            std=average.std if average and average.passes > 1 else None,
            passes=average.passes if average else 0,
            measured=sum(score.measured for score in scores),
            masked=sum(score.masked for score in scores),
            missing=sum(score.missing for score in scores),
            unmeasured_tasks=len(self.tasks[kind] - measured_tasks),
        )

    def _passes(self, kind: Kind) -> list[PassScore]:
        return score_passes(self._rewards[kind], product(self.tasks[kind], self._repeats))


def _kinds_of(rollout: Outcome | PlannedRollout) -> list[Kind]:
    kinds: list[Kind] = [("", "")]
    if rollout.category:
        kinds.append((rollout.category, ""))
        if rollout.subtype:
            kinds.append((rollout.category, rollout.subtype))
    return kinds


def _in_order(found: set[Kind]) -> list[Kind]:
    """Types that some run has something of, in the paper's order and then by name; every subtype of a known type."""
    categories = {category for category, _ in found if category}
    known = [category for category in LAYOUT if category in categories]
    kinds = []
    for category in (*known, *sorted(categories - LAYOUT.keys())):
        subtypes = LAYOUT.get(category, {})
        strange = sorted({subtype for mine, subtype in found if mine == category} - subtypes.keys() - {""})
        kinds += [(category, subtype) for subtype in ("", *subtypes, *strange)]
    return kinds


def _expected(kind: Kind) -> int | None:
    category, subtype = kind
    if not category:
        return sum(sum(subtypes.values()) for subtypes in LAYOUT.values())
    if not subtype:
        return sum(LAYOUT[category].values()) if category in LAYOUT else None
    return LAYOUT.get(category, {}).get(subtype)
