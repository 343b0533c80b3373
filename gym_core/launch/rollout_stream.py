"""One request of a trainer while it is played: rollouts begun, journaled, and handed out at the reader's pace."""

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from gym_core.errors import ConfigError, EpisodeError, FailureKind
from gym_core.http.problem import BAD_REQUEST
from gym_core.launch.outbox import Outbox
from gym_core.launch.rollout_groups import Delivery, Finished, GroupBook
from gym_core.launch.rollout_lines import LineMaker, RolloutFacts, encoded, with_group_rewards
from gym_core.launch.rollout_tally import SentLine, StoppedBy, Tally
from gym_core.rollout.collect import Breakdown, Collector, PlayEpisode
from gym_core.rollout.journal import JournalEntry, Place, RolloutJournal, key_of
from gym_core.rollout.sink import DamagedFile, FileBusy
from gym_core.types.rollout import Failed, RolloutKey, RolloutRecord, RunRequest
from gym_core.types.trainer import (
    AliveLine,
    ErrorLine,
    GroupLine,
    RolloutsRequest,
)
from gym_core.types.verification import ShapingTerms
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

MAX_UNDELIVERED = 32
"""Lines that wait for their reader; with more nothing new is begun. They wait on disk."""
ALIVE_EVERY_S = 5.0
CLOSE_TIMEOUT_S = 30.0
"""For the sessions of cancelled episodes."""

RewardGroup = Callable[[list[JsonObject]], Awaitable[list[ShapingTerms]]]
"""What the siblings make of the rewards of these rows. Raises EpisodeError."""
CurrentVersion = Callable[[], Awaitable[int | None]]
"""Of the policy."""


@dataclass(frozen=True)
class RolloutsPlan:
    """A request that was read and can be played."""

    request: RolloutsRequest
    prompts: list[list[RunRequest]]
    """The rollouts of each prompt, by repeat."""
    run_hash: str
    num_samples_in_parallel: int
    """Of the request, or fewer where the environment says so."""

    @property
    def max_rollout_attempts(self) -> int:
        return self.request.max_rollout_attempts

    @property
    def retry_budget_fraction(self) -> float:
        return self.request.retry_budget_fraction

    @property
    def rollouts(self) -> int:
        return sum(map(len, self.prompts))


@dataclass(frozen=True)
class StreamParts:
    """What a stream works with."""

    play: PlayEpisode
    pending: set["asyncio.Task[None]"]
    """Clean-up of episodes that goes on when they were cancelled."""
    lines: LineMaker
    journal_path: Path
    current_version: CurrentVersion
    reward_group: RewardGroup | None = None
    """For an environment that rewards whole groups."""


@dataclass(frozen=True)
class _End:
    stopped_by: StoppedBy


class RolloutStream:
    """Plays from the first `next_line` on. A sink of finished rollouts on one side, a source of lines on the other.

    In memory are the rollouts in flight, and of each finished one some numbers and where it lies in the journal.
    """

    def __init__(self, plan: RolloutsPlan, parts: StreamParts, on_close: Callable[[], None]) -> None:
        self.run_hash = plan.run_hash
        self._plan = plan
        self._parts = parts
        self._on_close = on_close
        self._out: Outbox[Delivery | GroupLine | ErrorLine | _End] = Outbox(MAX_UNDELIVERED)
        self._collector = Collector(self, parts.play, plan)
        self._groups = GroupBook(plan.request, available=len(plan.prompts))
        self._group_closed = asyncio.Event()
        self._replay: dict[RolloutKey, Finished] = {}
        self._version: int | None = None
        self._tally = Tally()
        self._journal: asyncio.Future[RolloutJournal] | None = None
        self._producer: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_over = False

    # -- the reader's side ---------------------------------------------------

    async def next_line(self) -> bytes | None:
        if self._is_over:
            return None
        if self._producer is None:
            self._producer = asyncio.create_task(self._produce(), name="rollouts")
        try:
            async with asyncio.timeout(ALIVE_EVERY_S):
                item = await self._out.get()
        except TimeoutError:
            return encoded(AliveLine(running=self._collector.state.running, finished=self._tally.finished))
        if isinstance(item, GroupLine):
            return encoded(item)
        if isinstance(item, Delivery):
            try:
                sent, content = await asyncio.to_thread(self._read, item)
            except Exception as error:  # noqa: BLE001 - as of what makes the lines
                self._is_over = True
                self._producer.cancel()
                return encoded(_error_line(error))
            self._tally.send(sent)
            return content
        self._is_over = True
        if isinstance(item, _End):
            return encoded(self._tally.end(item.stopped_by, self._collector.state.retries, self._groups.outcomes))
        return encoded(item)

    def _read(self, delivery: Delivery) -> tuple[SentLine, bytes]:
        line = self._parts.lines.finished(self._opened.read(delivery.place), delivery.fate)
        return SentLine.of(line), encoded(line)

    async def stop(self, error: ErrorLine) -> None:
        """End it with this line, and wait until its episodes are closed."""
        if self._producer is not None:
            self._producer.cancel()
        self._out.replace(error)
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel what runs and wait until it is closed. Twice is fine; goes on when the caller is cancelled."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="close-rollouts")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            if self._producer is not None:
                self._producer.cancel()
                await asyncio.wait({self._producer})
            if self._parts.pending:
                await asyncio.wait(self._parts.pending, timeout=CLOSE_TIMEOUT_S)
            if self._journal is not None:
                await asyncio.wait({self._journal})
                if self._journal.exception() is None:
                    await asyncio.to_thread(self._opened.close)
        finally:
            self._on_close()

    # -- the work ------------------------------------------------------------

    async def _produce(self) -> None:
        try:
            self._out.put(_End(await self._play()))
        except Exception as error:  # noqa: BLE001 - whatever it was, the reader gets a last line
            self._out.put(_error_line(error))

    @property
    def _opened(self) -> RolloutJournal:
        assert self._journal is not None  # opened before anything is played
        return self._journal.result()

    async def _play(self) -> StoppedBy:
        # Opened in a thread that goes on when this is cancelled: closing waits for it.
        self._journal = asyncio.ensure_future(asyncio.to_thread(RolloutJournal, self._parts.journal_path))
        await asyncio.shield(self._journal)
        stopped_by: StoppedBy
        limit = asyncio.timeout(self._plan.request.time_limit_s)
        try:
            async with limit:
                await self._load_replay()
                chosen = self._plain() if self._plan.request.group is None else self._grouped()
                async with aclosing(chosen) as requests:
                    await self._collector.run_stream(requests, expected=self._plan.rollouts)
            stopped_by = self._groups.stopped_by
        except TimeoutError:
            if not limit.expired():
                raise
            stopped_by = "time"
        self._out.put(*self._groups.flush(self._version))
        return stopped_by

    async def _load_replay(self) -> None:
        """What an earlier stream finished, if it is of this request's prompts."""
        wanted = {request.key: request for prompt in self._plan.prompts for request in prompt}
        for place in self._opened.found:
            entry = await asyncio.to_thread(self._opened.read, place)
            if (request := wanted.get(key_of(entry.line))) is not None:
                if request.key not in self._replay:  # a second entry is the first one with its group's rewards
                    self._tally.finish(entry)
                self._replay[request.key] = Finished(request.key, place, RolloutFacts.of(entry))
        self._tally.replayed = len(self._replay)
        if self._replay:
            await self._refresh_version()

    async def _plain(self) -> AsyncGenerator[RunRequest, None]:
        """Every rollout, a first pass over the prompts before the second."""
        self._tally.prompts, self._tally.started = len(self._plan.prompts), self._plan.rollouts
        for finished in self._replay.values():
            await self._settle(finished)
        by_repeat = itertools.zip_longest(*self._plan.prompts)
        for request in itertools.chain.from_iterable(by_repeat):
            if request is not None and request.key not in self._replay:
                yield request

    async def _grouped(self) -> AsyncGenerator[RunRequest, None]:
        """The rollouts of a prompt one after the other, so that groups are complete early; as many prompts as the
        selection wants."""
        while True:
            self._group_closed.clear()
            wanted = self._groups.wanted
            if not wanted and not self._groups.are_open:
                return
            first = self._groups.started
            for prompt in self._plan.prompts[first : first + wanted]:
                self._groups.begin(prompt)
                self._tally.prompts += 1
                self._tally.started += len(prompt)
                for request in prompt:
                    if request.key not in self._replay:
                        yield request
                    else:
                        await self._settle(self._replay[request.key])
            if not wanted:
                await self._group_closed.wait()

    # -- the sink's side -----------------------------------------------------

    async def append(self, record: RolloutRecord) -> None:
        """Keep a finished rollout, and wait while its reader has enough to read."""
        entry, place = await asyncio.to_thread(self._keep, record)
        await self._refresh_version()
        self._tally.finish(entry)
        await self._settle(Finished(record.key, place, RolloutFacts.of(entry)))

    async def _settle(self, finished: Finished) -> None:
        """Put out what can be said now, and wait for room."""
        finished = await self._rewarded(finished)
        ready, is_closed = self._groups.join(finished, self._version)
        self._out.put(*ready)
        if is_closed:
            self._group_closed.set()
        await self._out.room()

    async def _rewarded(self, last: Finished) -> Finished:
        """The last one of a group, once all of it have the rewards that depend on siblings; any other as it is."""
        siblings = [one for one in self._groups.completed_by(last) if one.facts.reward is not None]
        if self._parts.reward_group is None or not any(one.facts.lacks_group_rewards for one in siblings):
            return last
        try:
            entries = await asyncio.to_thread(lambda: [self._opened.read(one.place) for one in siblings])
            terms = await self._parts.reward_group([entry.line.row or {} for entry in entries])
            rewarded = [with_group_rewards(entry, more) for entry, more in zip(entries, terms, strict=True)]
        except (EpisodeError, ValueError) as error:
            log.warning("group not rewarded", extra={"group": last.key.task_hash, "reason": str(error)[:300]})
            self._groups.leave_unrewarded(last.key.task_hash, str(error)[:1000])
            return last
        for one, entry in zip(siblings, rewarded, strict=True):
            if not one.facts.lacks_group_rewards:
                continue  # from an earlier stream, which was cut off between two of them
            place = await asyncio.to_thread(self._opened.append, entry)
            new = Finished(one.key, place, RolloutFacts.of(entry))
            if one is last:
                last = new
            else:
                self._groups.replace(new)
        return last

    def _keep(self, record: RolloutRecord) -> tuple[JournalEntry, Place]:
        entry = self._parts.lines.entry(record)
        return entry, self._opened.append(entry)

    async def append_failure(self, request: RunRequest, result: Failed) -> None:
        log.info(
            "episode failed",
            extra={"episode": str(result.evidence.episode_id), "kind": result.failure.kind,
                   "reason": result.failure.reason[:300]},
        )  # fmt: skip

    async def _refresh_version(self) -> None:
        if self._plan.request.max_staleness is None:
            return
        try:
            self._version = await self._parts.current_version()
        except EpisodeError as error:
            self._version = None
            log.warning("policy version not known", extra={"reason": str(error)[:200]})


def _error_line(error: Exception) -> ErrorLine:
    """The last line of a stream that ended by this error; our disk is never the request's fault."""
    match error:
        case Breakdown():
            return ErrorLine(kind="breakdown", message=str(error))
        case EpisodeError():
            return ErrorLine(kind=error.kind, message=str(error))
        case DamagedFile() | FileBusy() | OSError():
            log.error("rollouts cannot be kept or read", extra={"reason": str(error)[:500]})
            return ErrorLine(kind=FailureKind.PERSISTENCE_FAILED, message=f"on the gym's disk: {error}")
        case ConfigError() | ValueError():
            log.warning("rollouts failed", extra={"reason": str(error)[:500]})
            return ErrorLine(kind=BAD_REQUEST, message=str(error))
    log.error("rollouts broke", exc_info=error)
    return ErrorLine(kind=FailureKind.INTERNAL, message="internal error; the server's log has it")
