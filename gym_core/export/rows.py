"""Finished rollouts as flat rows of plain cells, for spreadsheets, notebooks and trackers: one rollout, one row.

Fixed columns come first; then the task's own fields as `task.NAME`, reward channels as `reward.NAME`, and the grader's
columns as `grader.NAME`, as far as the rollouts have them.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gym_core.rollout.saved import SavedRun
from gym_core.statistics.outcome import answer_of
from gym_core.statistics.spend import JUDGE_USAGE, attempt_spend
from gym_core.types.cost import RunPrices
from gym_core.types.rollout import RolloutRecord
from gym_core.types.wire import MAX_WHOLE

Cell = str | int | float | bool | None

MAX_OWN_COLUMNS = 500
"""Of tasks and graders. A dataset whose rows have keys of their own, a thousand each, is no table."""


class CellKind(StrEnum):
    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    TEXT = "text"


@dataclass(frozen=True)
class Column:
    name: str
    kind: CellKind


_T, _I, _F, _B = CellKind.TEXT, CellKind.INT, CellKind.FLOAT, CellKind.BOOL
FIXED_COLUMNS = tuple(
    Column(name, kind)
    for name, kind in {
        "run": _T, "run_hash": _T, "environment": _T, "taskset": _T, "task_id": _T, "task_index": _I, "task_hash": _T,
        "repeat": _I, "rollout_id": _T, "attempts": _I, "finished_at": _F, "reward": _F, "masked": _B,
        "failure_kind": _T, "failure_stage": _T, "failure_reason": _T, "status": _T, "answer": _T, "tool_calls": _I,
        "images": _I, "model_calls": _I, "input_tokens": _I, "cached_input_tokens": _I, "output_tokens": _I,
        "judge_input_tokens": _I, "judge_output_tokens": _I, "cost": _F, "currency": _T, "seconds": _F,
        "model_seconds": _F, "sandbox_seconds": _F, "grading_seconds": _F,
    }.items()
)  # fmt: skip
"""docs/export.md says what each holds."""


def fixed_cells(record: RolloutRecord, *, run: str, prices: RunPrices) -> dict[str, Cell]:
    """The cells of `FIXED_COLUMNS`, in its order. Costs are those of the attempt that the row is of."""
    evidence, verification = record.evidence, record.verification
    spent = attempt_spend(evidence, verification.details)
    capture, failure = evidence.capture, verification.failure
    cost = prices.cost_of(spent.policy, spent.judge)
    return {
        "run": run,
        "run_hash": record.run_hash,
        "environment": record.environment,
        "taskset": record.task.id.taskset,
        "task_id": record.task.id.task_id,
        "task_index": record.task_index,
        "task_hash": record.key.task_hash,
        "repeat": record.key.repeat,
        "rollout_id": evidence.episode_id.rollout_id,
        "attempts": record.attempts,
        "finished_at": record.finished_at,
        "reward": verification.reward,
        "masked": verification.is_masked,
        "failure_kind": failure.kind.value if failure else None,
        "failure_stage": failure.stage if failure else None,
        "failure_reason": failure.reason if failure else None,
        "status": evidence.response.status if evidence.response else None,
        "answer": answer_of(record),
        "tool_calls": sum(evidence.agent.tool_calls.values()),
        "images": len(capture.images) if capture else None,
        "model_calls": capture.calls if capture else None,
        "input_tokens": spent.policy.input if capture else None,
        "cached_input_tokens": spent.policy.cached_input if capture else None,
        "output_tokens": spent.policy.output if capture else None,
        "judge_input_tokens": spent.judge.input if spent.judge.calls else None,
        "judge_output_tokens": spent.judge.output if spent.judge.calls else None,
        "cost": cost,
        "currency": prices.currency if cost is not None else None,
        "seconds": spent.total_s,
        "model_seconds": spent.model_s,
        "sandbox_seconds": spent.sandbox_s if evidence.sandbox else None,
        "grading_seconds": evidence.timing.verify,
    }


def own_cells(record: RolloutRecord) -> dict[str, Cell]:
    """What task and grader say, each name with its prefix; what is no plain value is JSON text."""
    graded = {name: value for name, value in record.verification.details.items() if name != JUDGE_USAGE}
    return {
        f"{prefix}.{name}": as_cell(value)
        for prefix, values in (
            ("task", record.task.task_data),
            ("reward", record.verification.reward_components),
            ("shaping", record.verification.shaping),
            ("grader", graded),
        )
        for name, value in values.items()
    }


def as_cell(value: object) -> Cell:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_WHOLE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return json.dumps(value, ensure_ascii=False)


class OwnColumns:
    """The columns that `own_cells` of many rollouts fill, and what kind of cell each has."""

    def __init__(self) -> None:
        self._kinds: dict[str, CellKind | None] = {}
        self.left_out: set[str] = set()
        """Names past `MAX_OWN_COLUMNS`; at most as many again are remembered."""

    def note(self, cells: Mapping[str, Cell]) -> None:
        for name, cell in cells.items():
            if name not in self._kinds and len(self._kinds) >= MAX_OWN_COLUMNS:
                if len(self.left_out) < MAX_OWN_COLUMNS:
                    self.left_out.add(name)
                continue
            self._kinds[name] = _joined(self._kinds.get(name), cell)

    def columns(self) -> tuple[Column, ...]:
        """In the order in which they were met, those of tasks first, of rewards next. One without a value is text."""
        order = ("task", "reward", "shaping", "grader")
        names = sorted(self._kinds, key=lambda name: order.index(name.partition(".")[0]))
        return tuple(Column(name, self._kinds[name] or CellKind.TEXT) for name in names)


def _joined(known: CellKind | None, cell: Cell) -> CellKind | None:
    """The kind that holds both what was met before and this."""
    if cell is None:
        return known
    kinds = {bool: CellKind.BOOL, int: CellKind.INT, float: CellKind.FLOAT, str: CellKind.TEXT}
    met = kinds[type(cell)]
    if known in (None, met):
        return met
    return CellKind.FLOAT if {known, met} == {CellKind.INT, CellKind.FLOAT} else CellKind.TEXT


@dataclass(frozen=True)
class RowTable:
    """The rollouts of some runs as a table. They are read anew, one at a time, each time that rows are asked for."""

    runs: Sequence[SavedRun]
    columns: tuple[Column, ...]
    left_out: frozenset[str]
    """Names of columns that there was no room for."""

    @classmethod
    def of(cls, runs: Sequence[SavedRun]) -> "RowTable":
        """Reads every rollout once, for the columns. Raises ConfigError for a line that is no rollout."""
        own = OwnColumns()
        for run in runs:
            for record in run.outlines():
                own.note(own_cells(record))
        return cls(runs, (*FIXED_COLUMNS, *own.columns()), frozenset(own.left_out))

    def rows(self) -> Iterator[list[Cell]]:
        """As many cells as there are columns, each None or of its column's kind."""
        for run in self.runs:
            prices = run.manifest.prices if run.manifest else RunPrices()
            for record in run.outlines():
                cells = fixed_cells(record, run=run.files.rollouts.stem, prices=prices) | own_cells(record)
                yield [_of_kind(cells.get(column.name), column.kind) for column in self.columns]


def _of_kind(cell: Cell, kind: CellKind) -> Cell:
    """A cell as the column has it: a number of another row may have made the column text."""
    if cell is None:
        return None
    if kind is CellKind.TEXT:
        return cell if isinstance(cell, str) else json.dumps(cell)
    return float(cell) if kind is CellKind.FLOAT else cell
