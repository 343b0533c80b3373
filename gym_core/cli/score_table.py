"""A benchmark's own result table as lines: percent, with masked and missing beside each mean."""

from gym_core.cli.summary import left_out_text
from gym_core.cli.terminal import counted, printable, table
from gym_core.types.score_table import ScoreCell, ScoreColumn, ScoreRow, ScoreTable


def score_table_lines(scores: ScoreTable) -> list[str]:
    head = ("", "tasks", *(printable(column.name, max_characters=40) for column in scores.columns))
    rows = [(_label(row), _tasks(row), *map(_cell, row.cells)) for row in scores.rows]
    title = "mean over passes (population standard deviation), in percent"
    return [f"{scores.benchmark}: {title}", *table([head, *rows]), *_notes(scores)]


def _label(row: ScoreRow) -> str:
    if not row.category:
        return "Overall"
    return printable(f"  {row.subtype}" if row.subtype else row.category, max_characters=60)


def _tasks(row: ScoreRow) -> str:
    complete = row.expected_tasks is None or row.tasks == row.expected_tasks
    return str(row.tasks) if complete else f"{row.tasks} of {row.expected_tasks}"


def _cell(cell: ScoreCell) -> str:
    left_out = left_out_text(cell.masked, cell.missing, cell.unmeasured_tasks)
    if cell.mean is None:
        return f"-  {left_out}".rstrip()
    std = "" if cell.std is None else f" ({100 * cell.std:.1f})"
    return f"{100 * cell.mean:.1f}{std}  {left_out}".rstrip()


def _notes(scores: ScoreTable) -> list[str]:
    expected = scores.rows[0].expected_tasks
    return [note for column in scores.columns for note in _column_notes(column, expected)]


def _column_notes(column: ScoreColumn, expected_tasks: int | None) -> list[str]:
    """What keeps the column from being compared with the paper's."""
    name = printable(column.name, max_characters=40)
    notes = []
    if column.tasks != expected_tasks:
        what = f"{counted(column.tasks, 'task')}, the benchmark has {expected_tasks}"
        notes.append(f"{name}: {what}: not comparable with published figures")
    if column.passes < 2:
        notes.append(f"{name}: one pass, so no deviation; published figures are of three (--num-repeats 3)")
    if column.unfinished_passes:
        unfinished = f"{column.unfinished_passes} unfinished pass{'es' if column.unfinished_passes > 1 else ''}"
        use = "left out" if column.passes_are_finished else "used, for none is finished"
        notes.append(f"{name}: {unfinished} {use}")
    return notes
