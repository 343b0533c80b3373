"""Which rollouts a pilot plays."""

import pytest

from gym_core.rollout.plan import choose_pilot, plan_rollouts
from gym_core.types.rollout import RolloutKey
from tests.fakes.rollouts import make_task

TASKS = [make_task(n) for n in range(10)]


def chosen(count: int, *, repeats: int = 2, done: int = 0) -> list[tuple[int, int]]:
    """(task, repeat) of each."""
    finished = {RolloutKey(task_hash=task.content_hash(), repeat=0) for task in TASKS[:done]}
    requests = plan_rollouts(TASKS, repeats=repeats, environment="e", done=finished)
    return [(request.task_index, request.key.repeat) for request in choose_pilot(requests, count)]


@pytest.mark.parametrize(
    ("count", "tasks"),
    [(1, [5]), (2, [2, 7]), (3, [1, 5, 8]), (9, [0, 1, 2, 3, 5, 6, 7, 8, 9]), (10, list(range(10)))],
)
def test_its_tasks_are_spread_over_the_dataset(count: int, tasks: list[int]) -> None:
    assert chosen(count) == [(task, 0) for task in tasks]


def test_repeats_come_when_there_are_no_more_tasks_and_never_more_than_there_are() -> None:
    assert chosen(12) == [*((task, 0) for task in range(10)), (0, 1), (1, 1)]
    assert len(chosen(99)) == 20


def test_what_is_done_is_not_chosen() -> None:
    assert chosen(2, repeats=1, done=8) == [(8, 0), (9, 0)]
    assert chosen(2, repeats=1, done=9) == [(9, 0)]
    assert chosen(2, repeats=1, done=10) == []
