"""The paper's table: its rows in its order, its deviation, and its counts beside what is not measured."""

import numpy as np
import pytest

from gym_core.statistics.babyvision import LAYOUT, TableRun, babyvision_table
from gym_core.statistics.outcome import Outcome, PlannedRollout
from gym_core.types.score_table import ScoreRow, ScoreTable

KINDS = [(category, subtype, count) for category, subtypes in LAYOUT.items() for subtype, count in subtypes.items()]


def outcome(
    task: str, repeat: int, reward: float | None, kind: tuple[str, str] = ("Visual Tracking", "Maze")
) -> Outcome:
    return Outcome(task, repeat, reward, *kind, None, None, {}, {}, {})


def row(table: ScoreTable, category: str = "", subtype: str = "") -> ScoreRow:
    (found,) = [each for each in table.rows if (each.category, each.subtype) == (category, subtype)]
    return found


def test_the_layout_is_the_papers() -> None:
    assert [sum(subtypes.values()) for subtypes in LAYOUT.values()] == [163, 83, 91, 51]
    assert (len(KINDS), sum(count for *_, count in KINDS)) == (22, 388)


def test_a_whole_run_has_every_row_with_mean_and_population_deviation_of_its_passes() -> None:
    generator = np.random.default_rng(5)
    grid = {
        (category, subtype): generator.integers(0, 2, (count, 3)).astype(float) for category, subtype, count in KINDS
    }
    outcomes = [
        outcome(f"{kind}-{task}", repeat, rewards[task, repeat], kind)
        for kind, rewards in grid.items()
        for task in range(len(rewards))
        for repeat in range(3)
    ]
    table = babyvision_table([TableRun("m", outcomes[::-1], [])])
    assert [(r.category, r.subtype) for r in table.rows] == [
        ("", ""),
        *((category, subtype) for category in LAYOUT for subtype in ("", *LAYOUT[category])),
    ]
    for kind, rewards in {**grid, ("", ""): np.concatenate(list(grid.values()))}.items():
        (cell,) = row(table, *kind).cells
        assert (cell.mean, cell.std) == pytest.approx((rewards.mean(), rewards.mean(axis=0).std(ddof=0)))
    assert all(r.tasks == r.expected_tasks for r in table.rows)
    assert table.columns[0].model_dump() == {
        "name": "m", "tasks": 388, "passes": 3, "unfinished_passes": 0, "passes_are_finished": True,
    }  # fmt: skip


def test_a_pass_that_is_not_finished_is_left_out_of_the_mean_and_its_rows_are_counted() -> None:
    outcomes = [
        outcome("a", 0, 1.0),
        outcome("b", 0, 0.0),
        outcome("a", 1, 1.0),
        outcome("b", 1, 1.0),
        outcome("a", 2, 1.0),
    ]
    table = babyvision_table([TableRun("m", outcomes, [PlannedRollout("b", 2, "Visual Tracking", "Maze")])])
    (cell,) = row(table, "Visual Tracking", "Maze").cells
    assert (cell.mean, cell.std, cell.passes, cell.missing) == (0.75, 0.25, 2, 1)
    assert (table.columns[0].passes, table.columns[0].unfinished_passes) == (2, 1)


def test_a_kind_whose_rows_are_all_masked_in_one_pass_is_over_the_others() -> None:
    other = ("Spatial Perception", "3D Views")
    outcomes = [outcome("a", 0, None), outcome("a", 1, 1.0), outcome("b", 0, 1.0, other), outcome("b", 1, 0.0, other)]
    table = babyvision_table([TableRun("m", outcomes, [])])
    (maze,), (views,) = row(table, "Visual Tracking", "Maze").cells, row(table, *other).cells
    assert (maze.mean, maze.std, maze.passes, maze.masked, maze.unmeasured_tasks) == (1.0, None, 1, 1, 0)
    assert (views.mean, views.std, views.passes) == (0.5, 0.5, 2)


def test_a_task_whose_repeats_are_all_masked_is_no_zero() -> None:
    table = babyvision_table([TableRun("m", [outcome("a", 0, None), outcome("b", 0, 1.0)], [])])
    (cell,) = row(table).cells
    assert (cell.mean, cell.measured, cell.masked, cell.unmeasured_tasks) == (1.0, 1, 1, 1)


def test_kinds_that_the_benchmark_does_not_have_come_last() -> None:
    outcomes = [
        outcome("a", 0, 1.0, ("Sums", "even")),
        outcome("b", 0, 1.0, ("Visual Tracking", "Labyrinth")),
        outcome("c", 0, 0.0),
    ]
    table = babyvision_table([TableRun("m", outcomes, []), TableRun("n", outcomes[2:], [])])
    assert [(r.category, r.subtype) for r in table.rows[-4:]] == [
        ("Visual Tracking", "Lines Observation"),
        ("Visual Tracking", "Labyrinth"),
        ("Sums", ""),
        ("Sums", "even"),
    ]
    assert row(table, "Sums", "even").expected_tasks is None
    assert [cell.mean for cell in row(table, "Sums", "even").cells] == [1.0, None]
