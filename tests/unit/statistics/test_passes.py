import numpy as np
import pytest

from gym_core.statistics.passes import average_passes, score_passes


def test_each_repeat_is_a_pass_and_the_deviation_is_that_of_the_population() -> None:
    grid = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 0, 1]], float)
    scores = score_passes({(f"t{t}", r): grid[t, r] for t in range(4) for r in range(3)})
    average = average_passes(scores)
    assert [score.mean for score in scores] == list(grid.mean(axis=0))
    assert average is not None
    assert (average.passes, average.mean) == (3, pytest.approx(grid.mean()))
    assert average.std == pytest.approx(grid.mean(axis=0).std(ddof=0))


def test_a_masked_row_leaves_its_pass_finished_and_an_absent_one_does_not() -> None:
    rewards = {("a", 0): 1.0, ("b", 0): None, ("a", 1): 0.0}
    scores = score_passes(rewards, planned=[("c", 0), ("c", 1)])
    assert [(s.repeat, s.mean, s.measured, s.masked, s.missing) for s in scores] == [
        (0, 1.0, 1, 1, 1),
        (1, 0.0, 1, 0, 2),
    ]
    assert average_passes(scores) is None
    finished = score_passes({("a", 0): 1.0, ("b", 0): None, ("a", 1): 0.0, ("b", 1): 0.0})
    average = average_passes(finished)
    assert average is not None
    assert (average.passes, average.mean, average.std) == (2, 0.5, 0.5)


def test_a_pass_of_masked_rows_alone_has_no_score() -> None:
    scores = score_passes({("a", 0): None, ("a", 1): 1.0})
    average = average_passes(scores)
    assert scores[0].mean is None
    assert average is not None
    assert (average.passes, average.mean, average.std) == (1, 1.0, 0.0)
