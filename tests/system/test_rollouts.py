"""POST /v1/rollouts of a real gym with real sandboxes: what is played, and what a departure leaves."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator

import httpx
import pytest

from gym_core.client import GymClient
from gym_core.sandbox import toolkit
from gym_core.types.trainer import TRAINER_LINE, EndLine, GroupLine, RolloutLine, RolloutsRequest
from tests.system import sums
from tests.system.house import House
from tests.system.test_launch import Standing, announced, benchmark, standing

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not toolkit.is_built(), reason="no toolkit: run `gym sandbox build`"),
]

CLEANED_UP_S = 20.0


@contextlib.asynccontextmanager
async def trainer(house: House, *, tasks: int, pause_s: float = 0.0) -> AsyncIterator[tuple[Standing, GymClient]]:
    async with (
        benchmark(house, tasks=tasks, pause_s=pause_s) as words,
        standing(house, *words) as gym,
        GymClient(*announced(house.said("out", gym.command.number).read_text())) as client,
    ):
        yield gym, client


async def no_sandbox_left(house: House) -> None:
    async with asyncio.timeout(CLEANED_UP_S):
        while house.sandbox_records():  # noqa: ASYNC110 - another process removes them
            await asyncio.sleep(0.05)


def request(**fields: object) -> RolloutsRequest:
    return RolloutsRequest.model_validate({"split": "benchmark", "num_samples_in_parallel": 3, **fields})


async def test_a_dataset_is_played_in_sandboxes_with_samples_groups_and_pictures(house: House) -> None:
    async with asyncio.timeout(120), trainer(house, tasks=4) as (_, client):
        lines = [line async for line in client.rollouts(request(num_repeats=2, group={}, branches="all"))]
        found = [line for line in lines if isinstance(line, RolloutLine)]
        assert {(line.task_index, line.repeat): line.reward for line in found} == {
            (n, repeat): sums.expected_reward(n) for n in range(4) for repeat in range(2)
        }
        for line in found:
            (sample,) = line.samples
            assert sample.loss_mask.count(1) > 0
            assert await client.image(sample.images[0].sha256) == sums.picture(line.task_index)
        assert len([line for line in lines if isinstance(line, GroupLine)]) == 4
        assert isinstance(lines[-1], EndLine)
        await no_sandbox_left(house)


async def test_a_client_that_leaves_ends_its_sandboxes_and_its_next_stream_goes_on(house: House) -> None:
    async with asyncio.timeout(120), trainer(house, tasks=8, pause_s=0.3) as (gym, client):
        asked = request(idempotency_key="step-1")
        async with gym.client.stream("POST", "/v1/rollouts", content=asked.to_json()) as reply:
            async for _ in reply.aiter_lines():
                break
            assert house.sandbox_records()
        await no_sandbox_left(house)
        lines = [line async for line in client.rollouts(asked)]
        end = lines[-1]
        assert isinstance(end, EndLine)
        assert (end.rollouts, end.replayed >= 1, end.unfinished) == (8, True, 0)
        assert sorted(line.task_index for line in lines if isinstance(line, RolloutLine)) == list(range(8))
        await no_sandbox_left(house)


async def test_a_gym_that_is_stopped_ends_its_streams_and_leaves_nothing(house: House) -> None:
    async with asyncio.timeout(120), trainer(house, tasks=60, pause_s=0.3) as (gym, _):
        async with gym.client.stream("POST", "/v1/rollouts", content=request().to_json()) as reply:
            lines = reply.aiter_lines()
            assert TRAINER_LINE.validate_json(await anext(lines))
            gym.command.signal(signal.SIGTERM)
            seen = []
            with contextlib.suppress(httpx.RemoteProtocolError):
                async for line in lines:
                    seen.append(TRAINER_LINE.validate_json(line))
        assert not any(isinstance(line, EndLine) for line in seen)
        assert (await gym.command.ended(30)).code == 0
        await house.all_gone()
        assert house.sandbox_records() == []


async def test_a_server_that_is_killed_costs_its_rollouts_an_attempt_and_no_line(house: House) -> None:
    async with asyncio.timeout(120), trainer(house, tasks=6, pause_s=0.3) as (gym, client):
        lines = client.rollouts(request())
        first = await anext(aiter(lines))
        os.kill(gym.command.servers()["policy_model"], signal.SIGKILL)
        found = [first, *[line async for line in lines]]
        rewards = {line.task_index: line.reward for line in found if isinstance(line, RolloutLine)}
        assert rewards == {n: sums.expected_reward(n) for n in range(6)}
        end = found[-1]
        assert isinstance(end, EndLine)
        assert end.retries >= 1
