"""A head server over a gym in one process, on a real socket, and the client that a trainer has.

async with trainer_gym(tmp_path) as gym:
    lines = [line async for line in gym.client.rollouts(RolloutsRequest(rows=[gym.row("teapot")]))]
"""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from gym_core.client import GymClient
from gym_core.launch.head import Head
from gym_core.launch.plan import DatasetEntry, EnvironmentEntry, HeadSlice, ServerEntry
from gym_core.types.wire import JsonObject
from resources_servers.echo.app import EchoServer
from tests.fakes.gym import TOKEN, InProcessGym, in_process_gym
from tests.fakes.proxy import PIXEL
from tests.fakes.serving import serving

HEAD_TOKEN = "head-token"


def make_row(question: str, *, phrase: str = "teapot", image: bool = False) -> JsonObject:
    """A flat row of the echo environment: the answer has to contain the phrase."""
    parts: list[JsonObject] = [{"type": "input_text", "text": question}]
    if image:
        parts.insert(0, {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"})
    message = {"type": "message", "role": "user", "content": parts}
    return {"responses_create_params": {"input": [message]}, "phrase": phrase}


@dataclass
class TrainerGym:
    inside: InProcessGym
    url: str
    client: GymClient
    http: httpx.AsyncClient
    """With the head's token."""
    state: Path


@contextlib.asynccontextmanager
async def trainer_gym(
    folder: Path, *, tasks: int = 4, resources_type: type[EchoServer] = EchoServer
) -> AsyncIterator[TrainerGym]:
    """With a dataset of split "train" of so many tasks."""
    dataset = folder / "tasks.jsonl"
    dataset.write_text("".join(json.dumps(make_row(f"question {index}")) + "\n" for index in range(tasks)))
    async with contextlib.AsyncExitStack() as stack:
        inside = await stack.enter_async_context(in_process_gym(folder, resources_type=resources_type))
        head = Head(_slice(inside, folder, dataset))
        url = await stack.enter_async_context(serving(head.make_app()))
        client = await stack.enter_async_context(GymClient(url, HEAD_TOKEN))
        headers = {"Authorization": f"Bearer {HEAD_TOKEN}"}
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, headers=headers, timeout=30))
        yield TrainerGym(inside, url, client, http, folder / "head")


def _slice(inside: InProcessGym, folder: Path, dataset: Path) -> HeadSlice:
    servers = {"echo": inside.servers.resources, "agent": inside.servers.agent, "policy_model": inside.servers.policy}
    environment = EnvironmentEntry(
        name="echo",
        resources_server="echo",
        agent_server="agent",
        policy_server="policy_model",
        agent_timeout_s=inside.servers.agent_timeout_s,
        max_concurrent_episodes=None,
        datasets=[DatasetEntry(name="tasks", type="train", path=str(dataset), num_repeats=1)],
        identity={"model": "tiny"},
    )
    return HeadSlice.model_validate(
        {
            "run_token": HEAD_TOKEN,
            "user_token": None,
            "url": "http://unused",
            "state_dir": str(folder / "head"),
            "servers": [
                ServerEntry.model_validate(
                    {"name": name, "type": "any", "implementation": "any", "url": client.url, "token": TOKEN}
                )
                for name, client in servers.items()
            ],
            "environments": {"echo": environment},
            "sampling": {},
            "config_view": {},
            "versions": {},
            "argv": [],
        }
    )
