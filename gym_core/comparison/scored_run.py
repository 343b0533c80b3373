"""A saved run as statistics see it: its tasks with the little that is needed of each rollout, and nothing heavier."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gym_core.capture.images import image_urls
from gym_core.errors import ConfigError
from gym_core.rollout.output import OutputFiles, RunManifest
from gym_core.rollout.saved import SavedRun
from gym_core.rollout.sink import read_rows
from gym_core.rollout.spending import note_failures
from gym_core.statistics.outcome import Outcome, PlannedRollout, answer_of, kinds_of, outcome_of, planned_of
from gym_core.statistics.report import aggregate
from gym_core.statistics.spend import SpendTally
from gym_core.types.cost import RunPrices
from gym_core.types.metrics import Estimate, MetricsReport
from gym_core.types.rollout import RolloutRecord, RunRequest
from gym_core.types.task import Task
from gym_core.types.wire import JsonObject


@dataclass(frozen=True)
class ScoredRollout:
    """One row."""

    rollout_id: str
    reward: float | None
    """None when masked."""
    answer: str | None


@dataclass(frozen=True)
class TaskPrint:
    """What a task consists of, in digests: equal ones are equal parts."""

    prompt: str
    """Messages with their texts, without the pictures."""
    pictures: tuple[str, ...]
    settings: str
    """Tools, sampling and whatever else stands in the request."""
    key: dict[str, str]
    """The fields beside the request (question, gold, ...) by name."""

    def agrees_on_key(self, other: "TaskPrint") -> bool:
        """In every field that both have, of which there is at least one: a dataset may gain a column."""
        both = self.key.keys() & other.key.keys()
        return bool(both) and all(self.key[name] == other.key[name] for name in both)


@dataclass
class ScoredTask:
    """A task of a run with its rows by repeat."""

    task_hash: str
    row_id: str
    """"taskset/id"."""
    category: str
    subtype: str
    content: TaskPrint
    rows: dict[int, ScoredRollout] = field(default_factory=dict)
    planned: set[int] = field(default_factory=set)
    """Repeats that the run set out to do."""

    @property
    def rewards(self) -> list[float]:
        """Of the measured rows, in order of the repeat."""
        return [row.reward for _, row in sorted(self.rows.items()) if row.reward is not None]

    @property
    def masked(self) -> int:
        return sum(row.reward is None for row in self.rows.values())

    @property
    def missing(self) -> int:
        return len(self.planned - self.rows.keys())


@dataclass
class ScoredRun:
    """Everything that a summary or a comparison says of one run comes from here."""

    path: Path
    manifest: RunManifest | None
    torn_bytes: int
    tasks: dict[str, ScoredTask]
    """By task hash."""
    outcomes: list[Outcome]
    planned: list[PlannedRollout]
    """Empty where the run's inputs are not there: what is missing is then not known."""
    environment: str
    judges: set[tuple[str, str]]
    """(model, hash of its prompt) of each judge that graded a row."""
    harnesses: set[str]
    """"name version" as the agent servers reported them."""
    manifest_problem: str = ""
    """What is wrong with a manifest that is there and was not read; the run counts as one without."""
    tally: SpendTally = field(default_factory=SpendTally)
    """Of every attempt, those that broke included."""

    @property
    def model(self) -> str | None:
        endpoint = self.manifest.endpoint if self.manifest else None
        return endpoint.model if endpoint else None

    def report(self) -> MetricsReport:
        keys = {(o.task_hash, o.repeat) for o in self.outcomes} | {(p.task_hash, p.repeat) for p in self.planned}
        report = aggregate(self.outcomes, environment=self.environment, expected=len(keys), planned=self.planned)
        return (report if self.planned else _without_missing(report)).model_copy(update={"spend": self.tally.total()})


def _without_missing(report: MetricsReport) -> MetricsReport:
    """Of a run of which nobody knows what it set out to do."""

    def unknown(estimate: Estimate) -> Estimate:
        return estimate.model_copy(update={"missing": None})

    return report.model_copy(
        update={
            "reward": unknown(report.reward),
            "coverage": report.coverage.model_copy(update={"expected": None, "missing": None}),
            "by_category": {name: unknown(estimate) for name, estimate in report.by_category.items()},
            "by_subtype": {name: unknown(estimate) for name, estimate in report.by_subtype.items()},
        }
    )


def read_scored_run(path: Path) -> ScoredRun:
    """Reads each row once. Raises ConfigError for what is no run, is damaged, or holds no rollout."""
    saved = SavedRun(path, needs_manifest=False)
    run = ScoredRun(path, saved.manifest, saved.torn_bytes, {}, [], [], "", set(), set())
    run.manifest_problem = saved.manifest_problem
    run.tally = SpendTally(saved.manifest.prices if saved.manifest else RunPrices())
    for record in saved.outlines():
        _add_record(run, record)
        run.tally.note_record(record)
    note_failures(run.tally, saved.files)
    for request in _read_planned(saved.files):
        run.planned.append(planned_of(request))
        _task_of(run, request.key.task_hash, request.task).planned.add(request.key.repeat)
    if not run.outcomes:
        raise ConfigError(f"{path}: holds no finished rollout yet; run it first, or give another run's output file")
    return run


def _add_record(run: ScoredRun, record: RolloutRecord) -> None:
    run.outcomes.append(outcome_of(record))
    run.environment = record.environment
    details = record.verification.details
    if isinstance(model := details.get("judge_model"), str):
        run.judges.add((model, str(details.get("judge_prompt_sha256") or "")))
    run.harnesses |= {f"{name} {version}" for name, version in record.evidence.agent.versions.items()}
    _task_of(run, record.key.task_hash, record.task).rows[record.key.repeat] = ScoredRollout(
        record.evidence.episode_id.rollout_id, record.verification.reward, answer_of(record)
    )


def _task_of(run: ScoredRun, task_hash: str, task: Task) -> ScoredTask:
    if task_hash not in run.tasks:
        category, subtype = kinds_of(task)
        row_id = f"{task.id.taskset}/{task.id.task_id}"
        run.tasks[task_hash] = ScoredTask(task_hash, row_id, category, subtype, print_of(task))
    return run.tasks[task_hash]


def _read_planned(files: OutputFiles) -> Iterator[RunRequest]:
    """The rollouts that the run set out to do; none where the file is not there."""
    for number, row in enumerate(read_rows(files.inputs), start=1):
        try:
            yield RunRequest.model_validate({name: value for name, value in row.items() if name != "run_hash"})
        except ValueError as error:
            raise ConfigError(f"{files.inputs}:{number}: no input of a run: {_first_line(error)}") from error


def _first_line(error: ValueError) -> str:
    return str(error).partition("\n")[0]


def print_of(task: Task) -> TaskPrint:
    request: JsonObject = task.responses_create_params.model_dump(mode="json", exclude_defaults=True)
    pictures = tuple(image_urls(task.responses_create_params))
    messages = msgspec.json.encode([request.pop("input", None), request.pop("instructions", None)], order="sorted")
    for url in pictures:
        messages = messages.replace(url.encode(), b"picture")
    return TaskPrint(
        prompt=_digest(messages),
        pictures=pictures,
        settings=_digest(msgspec.json.encode(request, order="sorted")),
        key={name: _digest(msgspec.json.encode(value, order="sorted")) for name, value in task.task_data.items()},
    )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
