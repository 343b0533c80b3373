"""Which task of one run is which of the other: by content, and where that differs by the row of the dataset."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gym_core.comparison.scored_run import ScoredRun, ScoredTask
from gym_core.statistics.paired_difference import RewardPair
from gym_core.types.comparison import Pairing


@dataclass(frozen=True)
class TaskPair:
    a: ScoredTask
    b: ScoredTask

    @property
    def is_same_content(self) -> bool:
        return self.a.task_hash == self.b.task_hash

    @property
    def is_measured(self) -> bool:
        return bool(self.a.rewards and self.b.rewards)

    @property
    def rewards(self) -> RewardPair:
        return RewardPair(self.a.rewards, self.b.rewards)


@dataclass(frozen=True)
class PairedTasks:
    pairs: Sequence[TaskPair]
    """In the order of A."""
    changed: int
    """Tasks of one row id whose question or key differ."""
    only_in_a: int
    only_in_b: int
    knows_missing: tuple[bool, bool] = (True, True)
    """Of A and B: whether it is known what the run set out to do."""

    @property
    def measured(self) -> list[TaskPair]:
        return [pair for pair in self.pairs if pair.is_measured]

    def counts(self) -> Pairing:
        knows_a, knows_b = self.knows_missing
        same = sum(pair.is_same_content for pair in self.pairs)
        return Pairing(
            paired=len(self.pairs),
            by_content=same,
            by_row_id=len(self.pairs) - same,
            changed=self.changed,
            only_in_a=self.only_in_a,
            only_in_b=self.only_in_b,
            measured=len(self.measured),
            unmeasured_in_a=sum(not pair.a.rewards for pair in self.pairs),
            unmeasured_in_b=sum(not pair.b.rewards for pair in self.pairs),
            masked_rollouts_a=sum(pair.a.masked for pair in self.pairs),
            masked_rollouts_b=sum(pair.b.masked for pair in self.pairs),
            missing_rollouts_a=sum(pair.a.missing for pair in self.pairs) if knows_a else None,
            missing_rollouts_b=sum(pair.b.missing for pair in self.pairs) if knows_b else None,
            uneven=sum(len(pair.a.rewards) != len(pair.b.rewards) for pair in self.measured),
        )


def pair_tasks(a: ScoredRun, b: ScoredRun) -> PairedTasks:
    """A row id pairs only where it names one task in either run, and question and key are the same."""
    left_b = {task_hash: task for task_hash, task in b.tasks.items() if task_hash not in a.tasks}
    unique_b = _by_unique_row_id(left_b.values())
    unique_a = _by_unique_row_id(task for task in a.tasks.values() if task.task_hash not in b.tasks)
    pairs, changed = [], 0
    for task in a.tasks.values():
        twin = b.tasks.get(task.task_hash)
        if twin is None and task.row_id in unique_a and task.row_id in unique_b:
            twin = unique_b[task.row_id]
            if not task.content.agrees_on_key(twin.content):
                changed += 1
                twin = None
        if twin is not None:
            pairs.append(TaskPair(task, twin))
    only_in = (len(a.tasks) - len(pairs), len(b.tasks) - len(pairs))
    return PairedTasks(pairs, changed, *only_in, knows_missing=(bool(a.planned), bool(b.planned)))


def shared_names(runs: Sequence[ScoredRun]) -> list[Mapping[str, str]]:
    """Of each run, a name by task hash; the tasks that pair have one, which is the hash in the first run with it.

    Two tasks of one run never share a name.
    """
    names: list[Mapping[str, str]] = []
    for run in runs:
        own: dict[str, str] = {}
        taken: set[str] = set()
        for earlier, earlier_names in zip(runs, names, strict=False):
            for pair in pair_tasks(earlier, run).pairs:
                name = earlier_names[pair.a.task_hash]
                if pair.b.task_hash not in own and name not in taken:
                    own[pair.b.task_hash] = name
                    taken.add(name)
        names.append({task_hash: own.get(task_hash, task_hash) for task_hash in run.tasks})
    return names


def _by_unique_row_id(tasks: Iterable[ScoredTask]) -> dict[str, ScoredTask]:
    known = list(tasks)
    times = Counter(task.row_id for task in known)
    return {task.row_id: task for task in known if times[task.row_id] == 1}
