"""The bounded loop that turns requests into records: attempts, retries within a budget, draining and cancelling."""

import asyncio
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gym_core.errors import FAILURE_POLICY, FailureKind
from gym_core.statistics.outcome import Outcome, outcome_of
from gym_core.types.rollout import Completed, EpisodeResult, Failed, RolloutRecord, RunRequest
from gym_core.types.verification import Failure, Verification

log = logging.getLogger(__name__)

RETRY_PAUSES_S = (1.0, 5.0, 15.0)
"""Before the second, third and any further episode of a rollout."""
MIN_RETRY_BUDGET = 10
BREAKDOWN_STREAK = 12
"""So many rollouts masked in a row, with nothing left to try: go on and every row would be."""

PlayEpisode = Callable[[RunRequest, int], Awaitable[EpisodeResult]]
"""(request, attempt) to how it went."""
Sleep = Callable[[float], Awaitable[None]]


class Breakdown(Exception):
    """The run cannot go on; the message says why. What is finished is written."""

    def __init__(self, message: str, *, kind: FailureKind) -> None:
        super().__init__(message)
        self.kind = kind
        """Of the last of the failures."""


class RecordSink(Protocol):
    """Where finished rollouts go."""

    @property
    def run_hash(self) -> str:
        """Of what runs; goes into each record."""

    async def append(self, record: RolloutRecord) -> None:
        """Keep a finished rollout. May wait: its slot stays taken meanwhile, so that nothing new begins.

        Raises EpisodeError when it cannot be kept, which ends the collection.
        """

    async def append_failure(self, request: RunRequest, result: Failed) -> None:
        """Note an episode that broke, whatever is done about it."""


class CollectLimits(Protocol):
    """As `RunOptions` and `RolloutsRequest` have them."""

    @property
    def num_samples_in_parallel(self) -> int: ...

    @property
    def max_rollout_attempts(self) -> int: ...

    @property
    def retry_budget_fraction(self) -> float: ...


@dataclass
class CollectorState:
    """What can be seen of a running collection."""

    total: int = 0
    running: int = 0
    retries: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    """Of every finished rollout, those of earlier runs included."""


@dataclass
class Collector:
    """Runs requests, at most `num_samples_in_parallel` at a time, and hands each record to the sink once.

    One asyncio task a running rollout; bookkeeping costs about 0.1 ms a rollout.
    """

    sink: RecordSink
    play: PlayEpisode
    options: CollectLimits
    state: CollectorState = field(default_factory=CollectorState)
    """Its outcomes are those of earlier runs at first."""
    sleep: Sleep = asyncio.sleep

    def __post_init__(self) -> None:
        self._draining = asyncio.Event()
        self._budget = 0
        self._streak = 0

    def drain(self) -> None:
        """Start nothing more; what runs is finished."""
        self._draining.set()

    async def run(self, requests: Sequence[RunRequest]) -> None:
        """Raises Breakdown, or EpisodeError when the disk refuses a finished rollout."""
        await self.run_stream(_each(requests), expected=len(requests))

    async def run_stream(self, requests: AsyncIterable[RunRequest], *, expected: int) -> None:
        """As `run`, for requests that are made while others run; `expected` of them at most, for the retry budget."""
        self.state.total = expected + len(self.state.outcomes)
        self._budget = max(MIN_RETRY_BUDGET, int(self.options.retry_budget_fraction * expected))
        slots = asyncio.Semaphore(self.options.num_samples_in_parallel)
        try:
            async with asyncio.TaskGroup() as group:
                async for request in requests:
                    await self._slot_or_drain(slots)
                    if self._draining.is_set():
                        break
                    group.create_task(self._finish(request, slots), name=request.rollout_id)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _slot_or_drain(self, slots: asyncio.Semaphore) -> None:
        if not slots.locked():
            await slots.acquire()
            return
        free = asyncio.ensure_future(slots.acquire())
        drained = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait({free, drained}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            drained.cancel()
            if not free.done():
                free.cancel()

    async def _finish(self, request: RunRequest, slots: asyncio.Semaphore) -> None:
        self.state.running += 1
        try:
            record = await self._rollout(request)
            if record is not None:
                await self.sink.append(record)
                self.state.outcomes.append(outcome_of(record))
        finally:
            self.state.running -= 1
            slots.release()

    async def _rollout(self, request: RunRequest) -> RolloutRecord | None:
        """Episodes of one rollout until one counts. None when the run drains between two of them."""
        for tries in range(1, self.options.max_rollout_attempts + 1):
            result = await self.play(request, request.first_attempt + tries - 1)
            if isinstance(result, Completed):
                self._note_graded(result.verification)
                return self._record(request, result, tries)
            await self.sink.append_failure(request, result)
            if not self._may_retry(result, tries):
                self._note_masked(result.failure)
                return self._record(request, result, tries)
            self.state.retries += 1
            await self.sleep(RETRY_PAUSES_S[min(tries, len(RETRY_PAUSES_S)) - 1])
            if self._draining.is_set():
                return None
        raise AssertionError("unreachable")

    def _may_retry(self, result: Failed, tries: int) -> bool:
        if not FAILURE_POLICY[result.failure.kind].retries_episode or tries >= self.options.max_rollout_attempts:
            return False
        if self._budget <= 0:
            return False
        self._budget -= 1
        return True

    def _note_graded(self, verification: Verification) -> None:
        if verification.failure is not None and verification.is_masked:
            self._note_masked(verification.failure)
        else:
            self._streak = 0

    def _note_masked(self, failure: Failure) -> None:
        """Raises Breakdown when all is masked and nothing is left to try: a judge without a key, say."""
        if failure.kind is FailureKind.REPLAY_DIVERGED:
            return  # what a replay is there to find
        self._streak += 1
        is_beyond_retries = self._budget <= 0 or not FAILURE_POLICY[failure.kind].retries_episode
        if is_beyond_retries and self._streak >= BREAKDOWN_STREAK:
            raise Breakdown(
                f"{self._streak} rollouts in a row were masked; the last one: "
                f"{failure.kind} in {failure.stage!r}: {failure.reason[:300]}",
                kind=failure.kind,
            )

    def _record(self, request: RunRequest, result: Completed | Failed, tries: int) -> RolloutRecord:
        verification = result.verification if isinstance(result, Completed) else Verification.failed(result.failure)
        return RolloutRecord(
            key=request.key,
            run_hash=self.sink.run_hash,
            task_index=request.task_index,
            environment=request.environment,
            task=request.task,
            evidence=result.evidence,
            verification=verification,
            attempts=request.first_attempt + tries,
            finished_at=time.time(),
        )


async def _each(requests: Sequence[RunRequest]) -> AsyncIterator[RunRequest]:
    for request in requests:
        yield request
