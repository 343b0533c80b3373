"""Rollouts of native tools for a trainer, with a real engine: every picture that a tool returned is in the samples."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.dominant_color.prepare import prepare
from gym_core.capture.images import parse_data_url
from gym_core.cli.selection import Selection
from gym_core.client import GymClient
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.prepared import read_dataset
from gym_core.launch.runner import running_gym
from gym_core.launch.warmup import start_warmup
from gym_core.types.trainer import EndLine, RolloutLine, RolloutsRequest
from gym_core.types.wire import JsonObject
from tests.live.engines import MODEL_NAME, Engine, build_model, needs_tiny_vlm, tiny_engine

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_tiny_vlm]

TASKS, REPEATS = 3, 2
AGENT = "tool_agent.agent_servers.tool_agent"


@asynccontextmanager
async def trainer(folder: Path, engine: Engine, **changes: object) -> AsyncIterator[GymClient]:
    """Of a gym whose benchmark has rows of its own."""
    path = prepare({"seed": 7, "tasks": TASKS}, folder / "d.jsonl")
    dataset = {"name": "rows", "type": "benchmark", "jsonl_fpath": str(path)}
    values: dict[str, object] = {
        "policy_base_url": engine.base_url,
        "policy_model_name": MODEL_NAME,
        "policy_api_key": "EMPTY",
        "dominant_color_environment.environment_servers.single_agent_turn_legacy.datasets": [dataset],
        **changes,
    }
    overrides = tuple(f"++{path}={json.dumps(value)}" for path, value in values.items())
    selection = Selection(None, "dominant_color", "vllm_model", (), (), overrides)
    checked = await asyncio.to_thread(selection.check)
    async with running_gym(checked, warmup=start_warmup(folder / "state")) as running:
        yield GymClient.over(running.client)


def shown(row: JsonObject) -> list[str]:
    """SHA-256 of the pictures after the first, as they are kept."""
    return [PreparedImage.from_bytes(parse_data_url(url), row="").sha256 for url in row["later_images"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.mark.parametrize(("dialect", "tool_images"), [("openai", "user"), ("openai", "tool"), ("tagged_json", "user")])
async def test_every_picture_of_a_tool_is_in_the_samples(
    model: Path, tmp_path: Path, dialect: str, tool_images: str
) -> None:
    changes = {f"{AGENT}.dialect": dialect, f"{AGENT}.tool_images": tool_images}
    async with (
        asyncio.timeout(300),
        tiny_engine(model, "--script", "tests.live.tool_script:answer") as engine,
        trainer(tmp_path, engine, **changes) as client,
    ):
        asked = RolloutsRequest(split="benchmark", num_repeats=REPEATS, require_token_ids=True, images="inline")
        lines = [line async for line in client.rollouts(asked)]
    assert isinstance(lines[-1], EndLine)
    rollouts = [line for line in lines if isinstance(line, RolloutLine)]
    tasks = list(read_dataset(tmp_path / "d.jsonl"))
    assert len(rollouts) == TASKS * REPEATS
    for line in rollouts:
        assert (line.reward, line.end_reason, line.tool_calls) == (1.0, "completed", 2)
        (sample,) = line.samples  # one sequence: each prompt goes on from what was sampled
        assert (sample.mask_reason, sample.drift) == (None, None)
        first, *returned = [image.sha256 for image in sample.images]
        task = tasks[line.task_index]
        assert first in task.responses_create_params.model_dump_json()
        assert returned == shown(task.task_data)
        assert all(image.data_url and image.offset for image in sample.images)
        assert [call.is_trained for call in sample.calls] == [True] * 3
        assert sum(sample.loss_mask) == sum(call.end - call.start for call in sample.calls)
