"""A trainer's stream over a real socket: a reader that does not read."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_core.launch import rollout_stream
from gym_core.types.trainer import RolloutsRequest
from tests.fakes.trainer_gym import make_row, trainer_gym

TASKS = 60
QUESTION_CHARS = 100_000
"""A prompt of as many tokens: a line of about a megabyte, so that a few of them fill the sockets' buffers."""


@pytest.mark.slow
async def test_a_reader_that_does_not_read_holds_the_gym_back_and_gets_everything_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_stream, "MAX_UNDELIVERED", 2)
    async with trainer_gym(tmp_path) as gym:
        gym.inside.endpoint.rule = lambda _: "teapot"
        (tmp_path / "tasks.jsonl").write_text(
            "".join(json.dumps(make_row(f"{n} " + "x" * QUESTION_CHARS)) + "\n" for n in range(TASKS))
        )
        asked = RolloutsRequest(num_samples_in_parallel=2)
        async with gym.http.stream("POST", "/v1/rollouts", content=asked.to_json()) as reply:
            played = await settled(lambda: len(gym.inside.endpoint.requests))
            assert played < TASKS * 2 // 3
            lines = [line async for line in reply.aiter_lines()]
        assert json.loads(lines[-1])["rollouts"] == TASKS
        assert len(lines) == TASKS + 1


async def settled(count: Callable[[], int]) -> int:
    """A number once it has stopped growing for a second."""
    seen, since = count(), asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - since < 1.0:
        await asyncio.sleep(0.02)
        if count() != seen:
            seen, since = count(), asyncio.get_running_loop().time()
    return seen
