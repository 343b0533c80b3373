"""A table as a benchmark's paper lays it out: a row for each kind of task, a column for each run."""

from gym_core.types.wire import Wire


class ScoreCell(Wire):
    """One run on one kind of tasks."""

    mean: float | None
    """Over passes, in [0, 1]; None when nothing was measured."""
    std: float | None
    """Population standard deviation of the passes; None with fewer than two."""
    passes: int
    """That the mean is of."""
    measured: int
    """Rollouts, of all passes."""
    masked: int
    missing: int
    unmeasured_tasks: int
    """Without any measured rollout: in no mean."""


class ScoreRow(Wire):
    category: str
    """"" of the row over everything."""
    subtype: str
    """"" of a row over a whole category."""
    tasks: int
    """That any of the runs has."""
    expected_tasks: int | None
    """That the benchmark has; None of a kind that it does not know."""
    cells: list[ScoreCell]
    """One a run."""


class ScoreColumn(Wire):
    name: str
    """The model, or the file when it is not known."""
    tasks: int
    passes: int
    """That the run's means are of."""
    unfinished_passes: int
    """With rows that are not written yet."""
    passes_are_finished: bool
    """Those of the means; false when there is none to take instead."""


class ScoreTable(Wire):
    benchmark: str
    columns: list[ScoreColumn]
    rows: list[ScoreRow]
