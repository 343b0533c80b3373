"""Streams of rollouts over a made-up player, without servers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gym_core.capture.images import AssetStore
from gym_core.episode import EpisodeStorage
from gym_core.export.samples import SessionReading
from gym_core.launch.rollout_lines import LineMaker
from gym_core.launch.rollout_stream import RolloutsPlan, RolloutStream, StreamParts
from gym_core.rollout.plan import plan_rollouts
from gym_core.types.rollout import EpisodeResult, RolloutRecord, RunRequest
from gym_core.types.sample import BranchLabel, SampledSpan, SequenceSummary, TrainingSample
from gym_core.types.trainer import (
    TRAINER_LINE,
    AliveLine,
    EndLine,
    ErrorLine,
    GroupLine,
    RolloutLine,
    RolloutsRequest,
)
from tests.fakes.rollouts import completed, make_task

Line = RolloutLine | GroupLine | AliveLine | EndLine | ErrorLine
Play = Callable[[RunRequest, int], Awaitable[EpisodeResult]]


def make_sample(record: RolloutRecord, *, version: int | None = None) -> TrainingSample:
    """Four prompt tokens and two sampled ones."""
    return TrainingSample(
        sample_id=f"{record.evidence.episode_id}.0.0",
        rollout_id=record.evidence.episode_id.rollout_id,
        task_id=record.task.id,
        environment=record.environment,
        advantage_group=record.key.task_hash,
        repeat=record.key.repeat,
        branch_label=BranchLabel.MAIN,
        token_ids=[1, 2, 3, 4, 5, 6],
        loss_mask=[0, 0, 0, 0, 1, 1],
        logprobs=[0, 0, 0, 0, -0.5, -0.25],
        calls=[SampledSpan(call_id="c", start=4, end=6, is_trained=True, finish_reason="stop", policy_version=version)],
        reward=record.verification.reward,
        mask=record.verification.is_masked,
        mask_reason="rollout_masked" if record.verification.is_masked else None,
    )


async def right(request: RunRequest, attempt: int) -> EpisodeResult:
    return completed(request, attempt)


def rewards(*by_task: Sequence[float]) -> Play:
    """A player that gives rollout `repeat` of task `index` this reward."""

    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        return completed(request, attempt, reward=by_task[request.task_index][request.key.repeat])

    return play


@dataclass
class StreamBench:
    """Opens streams over one folder, as one idempotency key would."""

    folder: Path
    tasks: int = 4
    version: int | None = None
    """The policy's current one; samples are made with version 1."""
    closed: list[bool] = field(default_factory=list)
    played: list[tuple[int, int]] = field(default_factory=list)
    """Task and repeat of each episode that was begun."""

    def open(self, play: Play = right, **request: object) -> RolloutStream:
        asked = RolloutsRequest.model_validate({"num_samples_in_parallel": 4, **request})
        planned = plan_rollouts(
            [make_task(index) for index in range(self.tasks)], repeats=asked.num_repeats, environment="e"
        )
        prompts = [planned[index :: self.tasks] for index in range(self.tasks)]
        storage = EpisodeStorage(AssetStore(self.folder / "assets"), self.folder / "captures")

        async def noted(request: RunRequest, attempt: int) -> EpisodeResult:
            self.played.append((request.task_index, request.key.repeat))
            return await play(request, attempt)

        parts = StreamParts(
            play=noted,
            pending=set(),
            lines=LineMaker(asked, storage, self.reading),
            journal_path=self.folder / "rollouts.jsonl",
            current_version=self.current,
        )
        plan = RolloutsPlan(asked, prompts, run_hash="h", num_samples_in_parallel=asked.num_samples_in_parallel)
        return RolloutStream(plan, parts, lambda: self.closed.append(True))

    def reading(self, record: RolloutRecord) -> SessionReading:
        summary = SequenceSummary(calls=1, sampled_tokens=2, tokens=6)
        return SessionReading(summary, [make_sample(record, version=1)])

    async def current(self) -> int | None:
        return self.version

    async def lines(self, play: Play = right, **request: object) -> list[Line]:
        """Of a whole stream."""
        stream = self.open(play, **request)
        try:
            return await read(stream)
        finally:
            await stream.aclose()


async def read(stream: RolloutStream, count: int | None = None) -> list[Line]:
    """The next `count` lines, or all of them."""
    found: list[Line] = []
    while (count is None or len(found) < count) and (line := await stream.next_line()) is not None:
        found.append(TRAINER_LINE.validate_json(line))
    return found


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - what is waited for happens in threads, too
            await asyncio.sleep(0.001)
