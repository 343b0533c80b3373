"""One evaluation inside the head server: tasks in, records and metrics out, progress to whoever watches."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gym_core.errors import ConfigError, EpisodeError
from gym_core.launch.player import PendingTasks
from gym_core.launch.policy_check import check_policy
from gym_core.launch.run_tasks import has_images
from gym_core.launch.run_work import DatasetWork, RunJob, RunSetting, RunWork
from gym_core.launch.saved_work import RejudgeWork, ReplayWork
from gym_core.rollout.collect import Breakdown, Collector, CollectorState
from gym_core.rollout.output import OutputFiles, RunManifest, RunOutput, write_json
from gym_core.rollout.plan import choose_pilot
from gym_core.rollout.saved import SavedRun
from gym_core.rollout.sink import FileBusy
from gym_core.rollout.spending import CountingSink, note_files
from gym_core.statistics.clustered_mean import estimate
from gym_core.statistics.outcome import PlannedRollout, outcome_of, planned_of
from gym_core.statistics.report import aggregate
from gym_core.statistics.spend import SpendTally, estimate_rest
from gym_core.types.cost import RestEstimate
from gym_core.types.metrics import MetricsReport
from gym_core.types.run import Rejudge, Replay, RunOptions, RunProgress, RunResult, RunState

log = logging.getLogger(__name__)

SNAPSHOT_EVERY_S = 0.5
LOCK_WAIT_S = 20.0
"""A little longer than a gym takes to end, in whatever way."""
LOCK_POLL_S = 0.2
ENDED = frozenset({RunState.DONE, RunState.CANCELLED, RunState.FAILED})


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
        self._pending: PendingTasks = set()
        self._resumed = 0
        self._planned: list[PlannedRollout] = []
        self._expected = 0
        self._tally = SpendTally(self.setting.environment.prices)
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
            slots=self._slots,
            active=self.setting.playing.slowest(),
            masked=len(seen.outcomes) - so_far.rollouts,
            retries=seen.retries,
            mean_reward=so_far.mean,
            ci_low_95=so_far.ci_low_95,
            ci_high_95=so_far.ci_high_95,
            elapsed_s=elapsed,
            rollouts_per_s=rate,
            remaining_s=(seen.total - len(seen.outcomes)) / rate if new > 0 else None,
            spend=self._tally.total(),
            failures=failures,
            message=self.message,
        )

    def result(self) -> RunResult:
        files = {**self.files.named(), "logs": str(self.setting.logs_dir)}
        return RunResult(progress=self.progress(), metrics=self._metrics, estimate=self._estimate(), files=files)

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
        work = work_of(RunJob(self.options, self.setting, self.files, self._pending))
        output = await self._opened_output(work, await asyncio.to_thread(work.load))
        try:
            todo = await work.begin(output)
            requests = todo.requests if self.options.pilot is None else choose_pilot(todo.requests, self.options.pilot)
            if requests and work.plays_policy:
                self.message = "looking at the policy's endpoint"
                wants_images = any(has_images(request.task) for request in requests)
                output.note_endpoint(await check_policy(self.setting.servers.policy, needs_images=wants_images))
                self.message = ""
            await asyncio.to_thread(output.write_inputs, todo.requests)
            self._planned = [planned_of(request) for request in todo.requests]
            settled = [*map(outcome_of, output.records), *todo.settled]
            saved = SavedRun(self.files.rollouts).records() if todo.settled else output.records
            await asyncio.to_thread(note_files, self._tally, self.files, saved)
            self._collector = Collector(
                CountingSink(output, self._tally),
                work.player(output),
                self._bounded_options(),
                CollectorState(outcomes=settled),
            )
            self._resumed = len(settled)
            self._expected = len(settled) + len(todo.requests)
            if self.state is RunState.STARTING:
                self.state = RunState.RUNNING
            log.info("run started", extra={"run": self.id, "rollouts": len(requests), "resumed": self._resumed})
            output.release_records()
            async with self.setting.playing.looked_at(self.setting.servers.policy):
                await self._collector.run(requests)
        except BaseException:
            with suppress(OSError):  # what ended the run is the news, not that its metrics found no room
                self._write_metrics()
            raise
        else:
            self._write_metrics()
        finally:
            output.close()
        if self.state is RunState.DRAINING and len(self._collector.state.outcomes) < self._collector.state.total:
            self._end(RunState.CANCELLED, "stopped after what was running; run the same command again to resume")
        else:
            self._end(RunState.DONE, "")

    async def _opened_output(self, work: RunWork, manifest: RunManifest) -> RunOutput:
        """A run that was killed a moment ago may still be ending; its lock goes with it."""

        def opened() -> RunOutput:
            return RunOutput(
                self.files,
                manifest,
                resume=self.options.resume,
                retry_masked=self.options.retry_masked,
                is_worth_retrying=work.is_worth_retrying,
            )

        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                output = await asyncio.to_thread(opened)
            except FileBusy as busy:
                if time.monotonic() > deadline:
                    raise
                self.message = f"waiting, {busy}"
                await asyncio.sleep(LOCK_POLL_S)
            else:
                self.message = ""
                return output

    @property
    def _slots(self) -> int:
        return self.setting.environment.bounded_parallel(self.options.num_samples_in_parallel)

    def _bounded_options(self) -> RunOptions:
        return self.options.model_copy(update={"num_samples_in_parallel": self._slots})

    def _estimate(self) -> RestEstimate | None:
        """Of what a pilot left."""
        left = self._expected - (len(self._collector.state.outcomes) if self._collector else 0)
        if self.options.pilot is None or self.state not in ENDED or left <= 0:
            return None
        return estimate_rest(
            self._tally.rollouts(), rollouts=left, parallel=self._slots, prices=self.setting.environment.prices
        )

    def _write_metrics(self) -> None:
        if self._collector is None:
            return
        seen = self._collector.state
        self._metrics = aggregate(
            seen.outcomes, environment=self.setting.environment.name, expected=self._expected, planned=self._planned
        ).model_copy(update={"spend": self._tally.total()})
        write_json(self.files.metrics, self._metrics.model_dump(mode="json"))

    def _end(self, state: RunState, message: str) -> None:
        self.state, self.message = state, message
        log.info("run ended", extra={"run": self.id, "state": state, "reason": message[:200]})


def work_of(job: RunJob) -> RunWork:
    match job.options.saved_run:
        case Rejudge() as use:
            return RejudgeWork(use, job)
        case Replay() as use:
            return ReplayWork(use, job)
        case None:
            return DatasetWork(job)
