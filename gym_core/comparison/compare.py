"""Two saved runs compared on the tasks that they share."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from gym_core.comparison.pairing import PairedTasks, TaskPair, pair_tasks
from gym_core.comparison.scored_run import ScoredRun, ScoredTask
from gym_core.comparison.setup import setup_differences
from gym_core.errors import ConfigError
from gym_core.statistics.paired_difference import paired_difference, paired_test
from gym_core.types.comparison import Comparison, FlippedTask, FlipSide, PairedDifference, RunSide
from gym_core.viewer.run import run_id


def compare_runs(a: ScoredRun, b: ScoredRun) -> Comparison:
    """Every difference is B - A. Raises ConfigError when the runs share no task."""
    tasks = pair_tasks(a, b)
    if not tasks.pairs:
        raise ConfigError(_nothing_shared(a, b, tasks))
    measured = tasks.measured
    rewards = [pair.rewards for pair in measured]
    return Comparison(
        a=_side(a),
        b=_side(b),
        pairing=tasks.counts(),
        overall=paired_difference(rewards),
        test=paired_test(rewards),
        by_category=_split(measured, lambda task: task.category),
        by_subtype=_split(measured, lambda task: f"{task.category}/{task.subtype}" if task.subtype else ""),
        flipped=_flipped(measured, (page_address(a), page_address(b))),
        setup=setup_differences(a, b, tasks.pairs),
    )


def _nothing_shared(a: ScoredRun, b: ScoredRun, tasks: PairedTasks) -> str:
    ids = [next(iter(run.tasks.values())).row_id for run in (a, b)]
    what = f"{a.path} and {b.path} share no task: nothing can be compared"
    if tasks.changed:
        return f"{what}. {tasks.changed} rows have the same id, but another question or answer key"
    return f"{what}. The first has tasks such as {ids[0]!r}, the second such as {ids[1]!r}"


def _side(run: ScoredRun) -> RunSide:
    return RunSide(
        path=str(run.path),
        run_hash=run.manifest.run_hash if run.manifest else None,
        model=run.model,
        reward=run.report().reward,
        torn_bytes=run.torn_bytes,
        address=page_address(run),
    )


def page_address(run: ScoredRun) -> str:
    """Of a run within the page of `gym view`, whatever else is shown there."""
    return f"#/run/{run_id(run.path.expanduser().absolute())}"


def _split(pairs: Sequence[TaskPair], key: Callable[[ScoredTask], str]) -> dict[str, PairedDifference]:
    groups: dict[str, list[TaskPair]] = defaultdict(list)
    for pair in pairs:
        if name := key(pair.a):
            groups[name].append(pair)
    return {name: paired_difference([pair.rewards for pair in group]) for name, group in sorted(groups.items())}


def _flipped(pairs: Sequence[TaskPair], addresses: tuple[str, str]) -> list[FlippedTask]:
    """Those that were lost first, the largest differences first. `addresses` are those of A and B."""
    found = [pair for pair in pairs if _is_mostly_right(pair.a) != _is_mostly_right(pair.b)]
    found.sort(key=lambda pair: (_is_mostly_right(pair.b), -abs(pair.rewards.difference), pair.a.row_id))
    return [
        FlippedTask(
            task=pair.a.row_id,
            category=pair.a.category,
            subtype=pair.a.subtype,
            direction="gained" if _is_mostly_right(pair.b) else "lost",
            a=_flip_side(pair.a, addresses[0]),
            b=_flip_side(pair.b, addresses[1]),
        )
        for pair in found
    ]


def _is_mostly_right(task: ScoredTask) -> bool:
    return sum(task.rewards) > len(task.rewards) / 2


def _flip_side(task: ScoredTask, address: str) -> FlipSide:
    """With the first rollout that shows what most of them do."""
    rows = [row for _, row in sorted(task.rows.items()) if row.reward is not None]
    wanted = _is_mostly_right(task)
    shown = next((row for row in rows if ((row.reward or 0.0) > 0.5) == wanted), rows[0])
    return FlipSide(
        rollout_id=shown.rollout_id,
        address=f"{address}/rollout/{shown.rollout_id}",
        answer=shown.answer,
        right=sum((row.reward or 0.0) >= 1.0 for row in rows),
        measured=len(rows),
    )
