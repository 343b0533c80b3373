"""The two example classes, played by the scripted policy without HTTP: right when it looks, and seldom when not."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from gym_core.capture.images import make_data_url
from gym_core.config.roots import INSTALL_DIR
from gym_core.datasets.prepared import assets_of
from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import FunctionCall, FunctionCallOutput, InputImage, InputText, OutputItem
from gym_core.types.session import SeedSessionRequest
from gym_core.types.tool import ToolReply, ToolRequest
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn
from resources_servers.benchmax.app import BenchmaxConfig, BenchmaxServer
from resources_servers.benchmax.prepare import prepare
from tests.unit.benchmax.served import Served, said

EXAMPLES = ["resources_servers/benchmax/examples"]
DOTS, LEDGER = "dot_memory_env:DotMemoryEnv", "ledger_env:LedgerEnv"
_TOOLS = frozenset({"see_next_picture", "look_up"})


async def play(
    folder: Path, class_path: str, *, looks: bool, reward: str = "sum", tasks: int = 6
) -> list[Verification]:
    environment = {"class_path": class_path, "import_paths": EXAMPLES}
    path = prepare({"environment": environment, "max_examples": tasks}, folder / "x.jsonl")
    part = ServerSlice(
        name="b", type="resources_servers", implementation="benchmax", block={}, run_token=SecretStr("t"),
        state_dir="unused", url="http://unused", roots=[str(INSTALL_DIR)],
    )  # fmt: skip
    config = BenchmaxConfig.model_validate({"environment": environment, "reward": reward})
    server = BenchmaxServer(config, ServerContext(part, HttpPool()))
    await server.open()
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [await _converse(Served(server, folder), path, row, looks=looks) for row in rows]
    finally:
        await server.close()


async def _converse(gym: Served, path: Path, row: JsonObject, *, looks: bool) -> Verification:
    session_id = row["example_id"]
    request = SeedSessionRequest(
        resources_session_id=session_id[:40],
        episode_id=EpisodeId(rollout_id="r"),
        task_id=TaskId(taskset="t", task_id=session_id),
        task_data={name: row[name] for name in ("example_id", "split", "payload")},
    )
    await gym.server.seed(request)
    session = gym.server.sessions.find(session_id[:40])
    messages = [_shown(item, path) for item in row["responses_create_params"]["input"]]
    output: list[OutputItem] = []
    for n in range(8):
        turn = next_turn(messages, _TOOLS, looks=looks)
        messages.append(_message("assistant", turn.text))
        if not turn.calls:
            return await gym.grade(said(turn.text, *output), session_id[:40])
        for m, call in enumerate(turn.calls):
            asked = ToolRequest(call_id=f"c{n}-{m}", name=call.name, arguments=json.dumps(call.arguments))
            reply = await gym.server.call_tool(session, asked)  # type: ignore[arg-type]  # as in served.py
            output.append(FunctionCall(call_id=asked.call_id, name=call.name, arguments=asked.arguments))
            output.append(FunctionCallOutput(call_id=asked.call_id, output=list(reply.content)))
            messages += _told(reply)
    raise AssertionError("it never ends")


def _shown(item: JsonObject, path: Path) -> ChatMessage:
    if isinstance(item["content"], str):
        return _message(item["role"], item["content"])
    parts = []
    for part in item["content"]:
        if part["type"] == "input_text":
            parts.append({"type": "text", "text": part["text"]})
        else:
            content = assets_of(path).get(part["image_url"].removeprefix("sha256:"))
            parts.append({"type": "image_url", "image_url": {"url": make_data_url(content)}})
    return _message(item["role"], parts)


def _told(reply: ToolReply) -> list[ChatMessage]:
    texts = [part.text for part in reply.content if isinstance(part, InputText)]
    pictures = [part.image_url for part in reply.content if isinstance(part, InputImage)]
    told = [_message("tool", "\n".join(texts))]
    if pictures:
        parts = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
        told.append(_message("user", [{"type": "text", "text": "Attached media from tool result:"}, *parts]))
    return told


def _message(role: str, content: object) -> ChatMessage:
    return ChatMessage.model_validate({"role": role, "content": content})


@pytest.mark.parametrize(("class_path", "reward"), [(DOTS, "correctness"), (DOTS, "in_place"), (LEDGER, "sum")])
async def test_a_policy_that_looks_is_right(tmp_path: Path, class_path: str, reward: str) -> None:
    assert [found.reward for found in await play(tmp_path, class_path, looks=True, reward=reward)] == [1.0] * 6


@pytest.mark.parametrize("class_path", [DOTS, LEDGER])
async def test_one_that_does_not_is_wrong(tmp_path: Path, class_path: str) -> None:
    reward = "correctness"
    assert sum(found.reward or 0.0 for found in await play(tmp_path, class_path, looks=False, reward=reward)) == 0.0


async def test_every_named_reward_is_in_the_columns(tmp_path: Path) -> None:
    (found,) = await play(tmp_path, DOTS, looks=True, reward="correctness", tasks=1)
    assert found.details.pop("rollout_id")
    assert found.details == {"rewards": {"correctness": 1.0, "in_place": 1.0}, "termination_reason": "finished"}
    assert found.reward_components == {"correctness": 1.0}
