"""One evaluation inside the head server: tasks in, records and metrics out, progress to whoever watches."""

import asyncio
import hashlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gym_core.capture.images import AssetStore, image_urls, parse_reference
from gym_core.datasets.prepared import assets_of, read_dataset
from gym_core.episode import Episode, EpisodeServers, EpisodeStorage
from gym_core.errors import ConfigError, EpisodeError, ModelUnavailable, TransportError
from gym_core.http.client import ServiceClient
from gym_core.launch.plan import DatasetEntry, EnvironmentEntry, identity_hash
from gym_core.metrics import aggregate, estimate
from gym_core.rollout.collect import Breakdown, Collector
from gym_core.rollout.output import OutputFiles, RunManifest, RunOutput, write_json
from gym_core.rollout.plan import plan_rollouts
from gym_core.rollout.sink import FileBusy
from gym_core.types.metrics import MetricsReport
from gym_core.types.model_call import EndpointReport
from gym_core.types.rollout import EpisodeResult, RunRequest
from gym_core.types.run import RunOptions, RunProgress, RunResult, RunState
from gym_core.types.session import Sampling
from gym_core.types.task import Task
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

SNAPSHOT_EVERY_S = 0.5
CHECK_PAUSES_S = (1.0, 4.0)
"""An endpoint that is busy or starting gets a second and a third look."""
CHECK_TIMEOUT_S = 150.0
"""Of all looks together: a model that is being loaded may need its time."""
MIN_LOOK_S = 10.0
LOCK_WAIT_S = 20.0
"""A little longer than a gym takes to end, in whatever way."""
LOCK_POLL_S = 0.2
ENDED = frozenset({RunState.DONE, RunState.CANCELLED, RunState.FAILED})


@dataclass(frozen=True)
class RunSetting:
    """What the head server hands to a run."""

    environment: EnvironmentEntry
    servers: EpisodeServers
    sampling: Sampling
    versions: dict[str, str]
    argv: list[str]
    logs_dir: Path


@dataclass
class Run:
    """Make it, `start()` it, watch it. All its files belong to one output path."""

    id: str
    options: RunOptions
    setting: RunSetting

    state: RunState = field(default=RunState.STARTING, init=False)
    message: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.files = OutputFiles(Path(self.options.output_jsonl_fpath).expanduser().absolute())
        self._collector: Collector | None = None
        self._task: asyncio.Task[None] | None = None
        self._metrics: MetricsReport | None = None
        self._pending: set[asyncio.Task[None]] = set()
        self._resumed = 0
        self._refused = False
        self._started = time.monotonic()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._execute(), name=f"run-{self.id}")

    def cancel(self, *, drain: bool) -> None:
        """Drain: finish what runs, start nothing more. Else stop at once; unfinished rollouts are for a resume."""
        if self.state in ENDED or self._task is None:
            return
        if drain and self._collector is not None:
            self.state = RunState.DRAINING
            self._collector.drain()
        else:
            self._task.cancel()

    async def wait(self) -> None:
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.shield(self._task)

    # -- what can be seen ----------------------------------------------------

    def progress(self) -> RunProgress:
        elapsed = time.monotonic() - self._started
        if self._collector is None:
            return RunProgress(
                run_id=self.id, state=self.state, message=self.message, is_refused=self._refused, elapsed_s=elapsed
            )
        seen = self._collector.state
        rewards: dict[str, list[float]] = {}
        failures: dict[str, int] = {}
        for outcome in seen.outcomes:
            if outcome.reward is not None:
                rewards.setdefault(outcome.task_hash, []).append(outcome.reward)
            if outcome.failure:
                failures[outcome.failure] = failures.get(outcome.failure, 0) + 1
        so_far = estimate(rewards.values())
        new = len(seen.outcomes) - self._resumed
        rate = new / elapsed if elapsed > 0 else 0.0
        return RunProgress(
            run_id=self.id,
            state=self.state,
            total=seen.total,
            done=len(seen.outcomes),
            resumed=self._resumed,
            running=seen.running,
            masked=len(seen.outcomes) - so_far.rollouts,
            retries=seen.retries,
            mean_reward=so_far.mean,
            ci_low_95=so_far.ci_low_95,
            ci_high_95=so_far.ci_high_95,
            elapsed_s=elapsed,
            rollouts_per_s=rate,
            remaining_s=(seen.total - len(seen.outcomes)) / rate if new > 0 else None,
            failures=failures,
            message=self.message,
        )

    def result(self) -> RunResult:
        files = {**self.files.named(), "logs": str(self.setting.logs_dir)}
        return RunResult(progress=self.progress(), metrics=self._metrics, files=files)

    async def watch(self) -> AsyncIterator[RunProgress]:
        """Snapshots while it runs, the last one after its end. Each costs O(finished rollouts)."""
        while self.state not in ENDED:
            yield self.progress()
            assert self._task is not None
            await asyncio.wait({self._task}, timeout=SNAPSHOT_EVERY_S)
            if self._task.done():
                break
        yield self.progress()

    # -- the work ------------------------------------------------------------

    async def _execute(self) -> None:
        try:
            await self._collect()
        except asyncio.CancelledError:
            self._end(RunState.CANCELLED, "cancelled; run the same command again to resume")
        except ConfigError as error:
            self._refused = True
            self._end(RunState.FAILED, str(error))
        except (Breakdown, EpisodeError, OSError, ValueError) as error:
            log.warning("run failed", extra={"run": self.id, "reason": str(error)[:500]})
            self._end(RunState.FAILED, str(error))
        except Exception as bug:
            log.exception("run broke", extra={"run": self.id})
            self._end(RunState.FAILED, f"internal error: {type(bug).__name__}: {bug}")
        finally:
            if self._pending:
                await asyncio.wait(self._pending, timeout=30)

    async def _collect(self) -> None:
        environment = self.setting.environment
        dataset = choose_dataset(environment, self.options.split)
        tasks = await asyncio.to_thread(self._load_tasks, dataset)
        output = await self._opened_output(dataset)
        try:
            requests = plan_rollouts(
                tasks,
                repeats=self.options.num_repeats or dataset.num_repeats,
                environment=environment.name,
                done=output.done,
                attempts=output.attempts(),
            )
            if requests:
                self.message = "looking at the policy's endpoint"
                wants_images = any(has_images(request.task) for request in requests)
                output.note_endpoint(await check_policy(self.setting.servers.policy, needs_images=wants_images))
                self.message = ""
            await asyncio.to_thread(output.write_inputs, requests)
            self._collector = Collector(output, self._player(output), self._bounded_options())
            self._resumed = len(output.records)
            if self.state is RunState.STARTING:
                self.state = RunState.RUNNING
            log.info("run started", extra={"run": self.id, "rollouts": len(requests), "resumed": self._resumed})
            await self._collector.run(requests)
        finally:
            self._write_metrics()
            output.close()
        drained = self.state is RunState.DRAINING and self._metrics and self._metrics.coverage.missing
        if drained:
            self._end(RunState.CANCELLED, "stopped after what was running; run the same command again to resume")
        else:
            self._end(RunState.DONE, "")

    def _load_tasks(self, dataset: DatasetEntry) -> list[Task]:
        """The run's tasks with their images in the run's assets folder, sampling defaults filled in."""
        path = Path(dataset.path)
        if not path.is_file():
            raise ConfigError(f"dataset {dataset.name!r}: no file {path}; `gym eval prepare` makes it")
        source, target = assets_of(path), AssetStore(self.files.assets)
        tasks = []
        for task in itertools.islice(_read_tasks(path, dataset.name), self.options.limit):
            for url in image_urls(task.responses_create_params):
                copy_asset(source, target, parse_reference(url))
            tasks.append(with_sampling(task, self.setting.sampling))
        if not tasks:
            raise ConfigError(f"dataset {dataset.name!r}: {path} holds no task")
        return tasks

    async def _opened_output(self, dataset: DatasetEntry) -> RunOutput:
        """A run that was killed a moment ago may still be ending; its lock goes with it."""
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                output = await asyncio.to_thread(self._open_output, dataset)
            except FileBusy as busy:
                if time.monotonic() > deadline:
                    raise
                self.message = f"waiting, {busy}"
                await asyncio.sleep(LOCK_POLL_S)
            else:
                self.message = ""
                return output

    def _open_output(self, dataset: DatasetEntry) -> RunOutput:
        identity: JsonObject = self.setting.environment.identity
        manifest = RunManifest(
            run_hash=identity_hash(identity),
            identity=identity,
            versions=self.setting.versions,
            datasets={dataset.name: {"path": dataset.path, "sha256": file_sha256(Path(dataset.path))}},
            options=self.options.model_dump(mode="json"),
            argv=self.setting.argv,
        )
        return RunOutput(self.files, manifest, resume=self.options.resume, retry_masked=self.options.retry_masked)

    def _bounded_options(self) -> RunOptions:
        most = self.setting.environment.max_concurrent_episodes
        if most is None or most >= self.options.num_samples_in_parallel:
            return self.options
        return self.options.model_copy(update={"num_samples_in_parallel": most})

    def _player(self, output: RunOutput) -> "EpisodePlayer":
        storage = EpisodeStorage(output.assets, self.files.captures)
        return EpisodePlayer(self.setting.servers, storage, self._pending)

    def _write_metrics(self) -> None:
        if self._collector is None:
            return
        seen = self._collector.state
        self._metrics = aggregate(seen.outcomes, environment=self.setting.environment.name, expected=seen.total)
        write_json(self.files.metrics, self._metrics.model_dump(mode="json"))

    def _end(self, state: RunState, message: str) -> None:
        self.state, self.message = state, message
        log.info("run ended", extra={"run": self.id, "state": state, "reason": message[:200]})


@dataclass(frozen=True)
class EpisodePlayer:
    """Plays episodes of one environment; what a collector calls."""

    servers: EpisodeServers
    storage: EpisodeStorage
    pending: set["asyncio.Task[None]"]

    async def __call__(self, request: RunRequest, attempt: int) -> EpisodeResult:
        return await Episode(request, attempt, self.servers, self.storage, self.pending).run()


async def check_policy(policy: ServiceClient, *, needs_images: bool) -> EndpointReport:
    """One real completion before hours are spent. Raises ModelUnavailable when the endpoint cannot play."""
    deadline = time.monotonic() + CHECK_TIMEOUT_S
    for pause_s in (*CHECK_PAUSES_S, None):
        try:
            report = await policy.call("POST", "/v1/check", None, EndpointReport, timeout_s=deadline - time.monotonic())
        except TransportError as error:
            raise ModelUnavailable(f"policy endpoint: it could not be looked at: {error}") from error
        if report.answers or pause_s is None or time.monotonic() + pause_s > deadline - MIN_LOOK_S:
            break
        await asyncio.sleep(pause_s)
    if not report.answers or (needs_images and not report.accepts_images):
        raise ModelUnavailable(f"policy endpoint: {report.message}")
    if report.message:
        log.warning("policy endpoint", extra={"reason": report.message})
    return report


def has_images(task: Task) -> bool:
    return bool(image_urls(task.responses_create_params))


def _read_tasks(path: Path, taskset: str) -> Iterator[Task]:
    """Raises ConfigError for a row that is none: the data is the caller's."""
    try:
        yield from read_dataset(path, taskset=taskset)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def choose_dataset(environment: EnvironmentEntry, split: str) -> DatasetEntry:
    """The dataset of a split. Raises ConfigError naming what there is."""
    found = [dataset for dataset in environment.datasets if dataset.type == split]
    if len(found) != 1:
        there = ", ".join(f"{d.name} ({d.type})" for d in environment.datasets) or "none"
        what = f"environment {environment.name!r}: {len(found)} datasets of split {split!r}"
        raise ConfigError(f"{what}; there are: {there}")
    return found[0]


def with_sampling(task: Task, sampling: Sampling) -> Task:
    """The task with the run's sampling where its own row says nothing."""
    body = task.responses_create_params
    missing = {k: v for k, v in sampling.model_dump(exclude_none=True).items() if getattr(body, k) is None}
    return task.model_copy(update={"responses_create_params": body.model_copy(update=missing)}) if missing else task


def copy_asset(source: AssetStore, target: AssetStore, sha256: str) -> None:
    """One image from a dataset's folder to a run's: linked where the file system can, so that it costs no bytes."""
    path = target.path(sha256)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.hardlink_to(source.path(sha256))
    except FileNotFoundError:
        what = f"dataset image {sha256} is missing from {source.folder}; prepare the dataset again"
        raise ConfigError(what) from None
    except OSError:
        target.put(source.get(sha256))


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
