"""Whole episodes of native tools: what the model did scores, what we broke masks, and every picture is kept."""

import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_servers.tool_agent.app import ToolAgent
from gym_core.episode import Episode
from gym_core.errors import FailureKind
from gym_core.types.responses import FunctionCallOutput, InputImage
from gym_core.types.rollout import Completed, EpisodeResult, Failed
from gym_core.types.wire import JsonObject
from tests.fakes.gym import TOKEN, InProcessGym, in_process_gym, make_request
from tests.fakes.model import Calls, Says
from tests.fakes.tools import ToolHouse, tool_house

CUT = Calls("cut", '{"left": 0.0}')


@dataclass
class ToolGym:
    gym: InProcessGym
    house: ToolHouse

    async def play(self, *turns: Says | str) -> EpisodeResult:
        def rule(messages: list[JsonObject]) -> Says | str:
            spoken = sum(1 for message in messages if message["role"] == "assistant")
            return turns[min(spoken, len(turns) - 1)]

        self.gym.endpoint.rule = rule
        servers = dataclasses.replace(self.gym.servers, resources=self.house.pool.service(self.house.url, TOKEN))
        return await Episode(make_request(image=True), 0, servers, self.gym.storage, set()).run()


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncIterator[ToolGym]:
    async with _open(tmp_path) as found:
        yield found


@asynccontextmanager
async def _open(folder: Path) -> AsyncIterator[ToolGym]:
    async with in_process_gym(folder, agent_type=ToolAgent) as gym, tool_house() as house:
        yield ToolGym(gym, house)


async def test_a_tools_picture_reaches_the_model_the_row_and_the_assets(tools: ToolGym) -> None:
    result = await tools.play(Says("", (CUT,)), "done")
    assert isinstance(result, Completed)
    evidence = result.evidence
    assert (result.verification.reward, evidence.agent.ending) == (1.0, "finished")
    assert evidence.response is not None
    assert evidence.capture is not None
    (output,) = [item for item in evidence.response.output if isinstance(item, FunctionCallOutput)]
    (picture,) = [part for part in output.output if isinstance(part, InputImage)]
    sha256 = picture.image_url.removeprefix("sha256:")
    assert tools.gym.storage.assets.get(sha256)
    assert (evidence.capture.images[-1], evidence.capture.calls) == (sha256, 2)


async def test_a_used_up_budget_scores_zero_without_grading(tools: ToolGym) -> None:
    result = await tools.play(Says("", (Calls("fly", "{}"),)))
    assert isinstance(result, Completed)
    assert result.verification.failure is not None
    assert (result.verification.reward, result.verification.failure.kind) == (0.0, FailureKind.NO_FINAL_ANSWER)
    assert (result.evidence.agent.ending, result.evidence.agent.tool_calls) == ("max_turns", {"unknown_tool": 16})


async def test_a_tool_that_breaks_masks_and_keeps_what_was_seen(tools: ToolGym) -> None:
    result = await tools.play(Says("", (CUT,)), Says("", (Calls("break", "{}"),)))
    assert isinstance(result, Failed)
    assert (result.failure.kind, result.failure.stage) == (FailureKind.VERIFIER_ERROR, "respond")
    assert "tool 'break' broke" in result.failure.reason
    assert result.evidence.response is not None
    assert "sha256:" in json.dumps(result.evidence.response.model_dump())


async def test_a_prompt_image_that_does_not_fit_the_shelf_is_the_tasks_fault(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path, agent_type=ToolAgent) as gym, tool_house(tool_images={"max_bytes": 8}) as house:
        result = await ToolGym(gym, house).play("done")
    assert isinstance(result, Failed)
    assert result.failure.kind is FailureKind.INVALID_TASK


async def test_sessions_of_tools_end_with_their_episode(tools: ToolGym) -> None:
    await tools.play(Says("", (CUT,)), "done")
    assert len(tools.house.server.sessions) == 0
