"""A run's files: where each lies, what is in them already, and whether a run may go on from there."""

import json
import logging
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from gym_core.capture.images import AssetStore
from gym_core.errors import FAILURE_POLICY, ConfigError, FailureKind
from gym_core.rollout.sink import DamagedFile, JsonlSink, read_rows, rewrite, torn_bytes
from gym_core.types.cost import RunPrices
from gym_core.types.flat_row import flat_from_record, record_from_flat
from gym_core.types.model_call import EndpointReport
from gym_core.types.rollout import Failed, RolloutKey, RolloutRecord, RunRequest
from gym_core.types.wire import JsonObject, Wire

log = logging.getLogger(__name__)

_JUDGE_KINDS = frozenset({FailureKind.JUDGE_FAILED, FailureKind.JUDGE_UNPARSEABLE})
"""A resume does not play these again: the answers are there, only their grades are missing."""


class Derivation(Wire):
    """Where a run comes from whose rollouts are those of another one."""

    kind: Literal["rejudge", "replay"]
    path: str
    """Of the other one's rollouts, as it was given."""
    run_hash: str
    only_masked: bool = False
    """Of a rejudge: whether only rows without a grade were judged."""


class RunManifest(Wire):
    """`X_run.json`: what ran. The hash is over `identity` alone; the rest is for people."""

    schema_version: int = 1
    run_hash: str
    identity: JsonObject
    """What a score depends on: blocks without addresses and secrets, versions, sandbox content."""
    versions: dict[str, str] = {}
    datasets: JsonObject = {}
    endpoint: EndpointReport | None = None
    """What the policy's endpoint was seen to do before the run; None when nothing was ever played.
    A resumed run keeps the look of before until it takes its own."""
    prices: RunPrices = RunPrices()
    """Of the models, at the last run into the file; what costs are worked out with."""
    options: JsonObject = {}
    argv: list[str] = []
    derived_from: Derivation | None = None
    """None for a run that played a dataset."""
    started_at: float = Field(default_factory=time.time)


def read_manifest(path: Path) -> RunManifest:
    """Raises ConfigError for a file that is damaged or no manifest, OSError when it cannot be read."""
    try:
        return RunManifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ConfigError(
            f"{path} is damaged, or not what a run wrote ({_first_mistake(error)}): copy it again from where the run "
            "was made, along with the rollouts"
        ) from error


def _first_mistake(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return "it is not whole JSON"
    where = ".".join(map(str, first["loc"]))[:100]
    return f"{where}: {first['msg'][:100]}" if where else "it is no JSON object"


@dataclass(frozen=True)
class OutputFiles:
    """The paths that belong to `++output_jsonl_fpath=X.jsonl`."""

    rollouts: Path

    def _beside(self, ending: str) -> Path:
        return self.rollouts.with_name(self.rollouts.stem + ending)

    @property
    def inputs(self) -> Path:
        return self._beside("_materialized_inputs.jsonl")

    @property
    def failures(self) -> Path:
        return self._beside("_failures.jsonl")

    @property
    def metrics(self) -> Path:
        return self._beside("_aggregate_metrics.json")

    @property
    def manifest(self) -> Path:
        return self._beside("_run.json")

    @property
    def assets(self) -> Path:
        return self._beside("_assets")

    @property
    def captures(self) -> Path:
        return self._beside("_captures")

    def named(self) -> dict[str, str]:
        names = ("rollouts", "inputs", "failures", "metrics", "manifest", "assets", "captures")
        return {name: str(getattr(self, name)) for name in names}


def check_output_path(path: Path) -> None:
    """Whether a run can write its files there; nothing that was made to see it stays. Raises ConfigError.

    `path` is absolute. Ask before anything is started: a wrong path is a mistake in the configuration.
    """
    what = f"config: output_jsonl_fpath: {str(path)!r}"
    if path.suffix != ".jsonl" or not path.stem.strip(".") or "\0" in str(path):
        raise ConfigError(f"{what} does not end in NAME.jsonl; the other files of the run are named after it")
    files = OutputFiles(path)
    try:
        for place in map(Path, files.named().values()):
            if obstacle := _obstacle(place, is_folder=place in (files.assets, files.captures)):
                raise ConfigError(f"{what}: {str(place)!r} {obstacle}" if place != path else f"{what} {obstacle}")
        for rows in (files.rollouts, files.failures):
            if rows.exists():
                torn_bytes(rows)  # an error when what is there is no run's
        _try_writing_in(path.parent)
        _partial_of(files.inputs).exists()  # the longest name of all: an error when it is too long
    except DamagedFile as foreign:
        raise ConfigError(f"{what} cannot be resumed: {foreign}") from foreign
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{what} cannot be written: {reason}") from error


def _obstacle(place: Path, *, is_folder: bool) -> str:
    """What is wrong with what lies at a place, in words that follow its name; "" when nothing is, or nothing lies."""
    if not place.exists():
        return ""
    if is_folder and not place.is_dir():
        return "is no folder"
    if not is_folder and not place.is_file():
        return "is a folder" if place.is_dir() else "is no regular file"
    return "" if os.access(place, os.W_OK) else "is read-only"


def _try_writing_in(folder: Path) -> None:
    """Make the folder with those above it, write a file into it, and take away what was made. Raises OSError."""
    made: list[Path] = []
    try:
        for missing in [f for f in (*reversed(folder.parents), folder) if not f.exists()]:
            missing.mkdir(exist_ok=True)
            made.append(missing)
        with tempfile.TemporaryFile(dir=folder):
            pass
    finally:
        for mine in reversed(made):
            with suppress(OSError):  # somebody else has begun to use it
                mine.rmdir()


def write_json(path: Path, value: object) -> None:
    """Replace a small JSON file at once."""
    partial = _partial_of(path)
    try:
        partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _partial_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


class RunOutput:
    """The open files of one run: appends records and failures, knows what earlier runs left.

    Opening takes the lock and repairs torn tails. Nothing that was written is ever deleted; masked rows that are to be
    tried again move to the failures file first.
    """

    def __init__(
        self,
        files: OutputFiles,
        manifest: RunManifest,
        *,
        resume: bool,
        retry_masked: bool,
        is_worth_retrying: Callable[[RolloutRecord], bool] | None = None,
    ) -> None:
        """`is_worth_retrying` says which masked rollouts are tried again; None: those that a new episode may mend."""
        self.files = files
        self.assets = AssetStore(files.assets)
        self.run_hash = manifest.run_hash
        before = earlier_manifest(files, manifest, resume=resume)
        # A run that is resumed with nothing left to play has no look of its own.
        self._manifest = manifest.model_copy(update={"endpoint": before.endpoint}) if before else manifest
        self._is_worth_retrying = is_worth_retrying or may_be_mended
        self._rollouts = JsonlSink(files.rollouts)
        try:
            self._failures = JsonlSink(files.failures)
        except BaseException:
            self._rollouts.close()
            raise
        self.records = [record_from_flat(row) for row in read_rows(files.rollouts)]
        if retry_masked:
            self._set_masked_aside()
        self._write_manifest()

    def note_endpoint(self, report: EndpointReport) -> None:
        """Put into the manifest what the policy's endpoint was seen to do."""
        self._manifest = self._manifest.model_copy(update={"endpoint": report})
        self._write_manifest()

    def _write_manifest(self) -> None:
        write_json(self.files.manifest, self._manifest.model_dump(mode="json"))

    @property
    def done(self) -> set[RolloutKey]:
        return {record.key for record in self.records}

    def release_records(self) -> None:
        """Forget what earlier runs wrote, trajectories and all; the file has it."""
        self.records = []

    def attempts(self) -> dict[RolloutKey, int]:
        """Episodes that earlier runs spent on rollouts and gave up."""
        spent: dict[RolloutKey, int] = {}
        for row in read_rows(self.files.failures):
            key = RolloutKey(task_hash=row["task_hash"], repeat=row["repeat"])
            spent[key] = max(spent.get(key, 0), row["attempt"] + 1)
        return spent

    def write_inputs(self, requests: list[RunRequest]) -> None:
        """The exact inputs of this run, repeats as their number, images by reference."""
        rows = [{**r.model_dump(mode="json", exclude_none=True), "run_hash": self.run_hash} for r in requests]
        known = list(read_rows(self.files.inputs)) if self.files.inputs.exists() else []
        seen = {(row["key"]["task_hash"], row["key"]["repeat"]) for row in known}
        rewrite(self.files.inputs, known + [r for r in rows if (r["key"]["task_hash"], r["key"]["repeat"]) not in seen])

    async def append(self, record: RolloutRecord) -> None:
        """A finished rollout. Raises EpisodeError (persistence_failed)."""
        self._rollouts.append(flat_from_record(record))

    async def append_failure(self, request: RunRequest, result: Failed) -> None:
        self._failures.append(_failure_row(request, result))

    def close(self) -> None:
        self._rollouts.close()
        self._failures.close()

    def _set_masked_aside(self) -> None:
        again = [r for r in self.records if r.verification.is_masked and self._is_worth_retrying(r)]
        if not again:
            return
        for record in again:
            request = request_of(record)
            failure = record.verification.failure
            assert failure is not None  # a masked record has one
            self._failures.append(_failure_row(request, Failed(evidence=record.evidence, failure=failure)))
        keys = {record.key for record in again}
        self.records = [record for record in self.records if record.key not in keys]
        self._rollouts.close()
        rewrite(self.files.rollouts, [flat_from_record(record) for record in self.records])
        self._rollouts = JsonlSink(self.files.rollouts)
        log.info("masked rollouts are tried again", extra={"rollouts": len(again)})


def earlier_manifest(files: OutputFiles, manifest: RunManifest, *, resume: bool) -> RunManifest | None:
    """The manifest of the run that this one would go on from; None when there is nothing to resume. Blocking.

    Raises ConfigError when there are rollouts and this run may not add to them.
    """
    if not files.rollouts.exists() or not any(True for _ in read_rows(files.rollouts)):
        return None
    where = files.rollouts
    if not resume:
        raise ConfigError(f"{where} already holds rollouts; resume, or choose another --output (nothing is deleted)")
    if not files.manifest.exists():
        raise ConfigError(f"{where} holds rollouts but {files.manifest} is missing: it cannot be resumed")
    before = read_manifest(files.manifest)
    if before.run_hash != manifest.run_hash:
        changed = "; ".join(differences(before.identity, manifest.identity)) or "nothing visible"
        raise ConfigError(
            f"{where} was written by run {before.run_hash[:12]}, this is run {manifest.run_hash[:12]}: {changed}."
            " Choose another --output to keep the two apart."
        )
    return before


def _failure_row(request: RunRequest, result: Failed) -> JsonObject:
    return {
        "task_hash": request.key.task_hash,
        "repeat": request.key.repeat,
        "attempt": result.evidence.episode_id.attempt,
        "task_index": request.task_index,
        "failed_at": time.time(),
        "failure": result.failure.model_dump(mode="json"),
        "evidence": result.evidence.model_dump(mode="json", exclude_none=True),
    }


def may_be_mended(record: RolloutRecord) -> bool:
    """Whether another episode may end otherwise."""
    failure = record.verification.failure
    if failure is None or failure.kind in _JUDGE_KINDS:
        return False
    return FAILURE_POLICY[failure.kind].retries_episode


def request_of(record: RolloutRecord) -> RunRequest:
    """What was asked for, to be asked for again."""
    return RunRequest(
        key=record.key,
        task_index=record.task_index,
        task=record.task,
        environment=record.environment,
        rollout_id=record.evidence.episode_id.rollout_id,
    )


def differences(before: JsonObject, after: JsonObject, path: str = "") -> list[str]:
    """Dotted paths at which two JSON objects differ, with both values, shortened."""
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new, where = before.get(key), after.get(key), f"{path}{key}"
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{where}.")
        elif old != new:
            found.append(f"{where}: {str(old)[:60]} -> {str(new)[:60]}")
    return found
