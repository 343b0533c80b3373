"""A gym in one process: real resources, agent and policy servers on loopback sockets, a scripted endpoint behind them.

async with in_process_gym(tmp_path) as gym:
    gym.endpoint.rule = lambda messages: "teapot"
    result = await gym.play()
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent_servers.single_call.app import SingleCall
from gym_core.capture.images import AssetStore
from gym_core.episode import Episode, EpisodeServers, EpisodeStorage
from gym_core.http.client import HttpPool
from gym_core.servers.agent import AgentServer
from gym_core.servers.base import Server
from gym_core.servers.context import Peer, ServerContext, ServerSlice
from gym_core.servers.resources import ResourcesServer, ResourcesServerConfig
from gym_core.types.ids import TaskId
from gym_core.types.responses import InputImage, InputMessage, InputText, ResponsesBody
from gym_core.types.rollout import EpisodeResult, RolloutKey, RunRequest
from gym_core.types.task import Task
from gym_core.types.wire import JsonObject, Wire
from model_servers.vllm_model.app import VllmModel
from resources_servers.echo.app import EchoServer, EchoTask
from tests.fakes.model import ScriptedEndpoint
from tests.fakes.proxy import PIXEL
from tests.fakes.serving import serving

TOKEN = "run-token"
POLICY = {"type": "model_servers", "name": "policy_model"}


@dataclass
class InProcessGym:
    endpoint: ScriptedEndpoint
    servers: EpisodeServers
    storage: EpisodeStorage
    resources: ResourcesServer[EchoTask, ResourcesServerConfig]
    policy: VllmModel

    def forget_policy_sessions(self) -> None:
        """What a crash of the policy server does to them."""
        self.policy.sessions = VllmModel(self.policy.config, self.policy.context).sessions

    async def play(self, **fields: object) -> EpisodeResult:
        return await Episode(make_request(**fields), 0, self.servers, self.storage, set()).run()


def make_request(
    *,
    phrase: str = "teapot",
    image: bool = False,
    temperature: float | None = None,
    metadata: dict[str, str] | None = None,
) -> RunRequest:
    parts = [InputText(text="say teapot")]
    content = [InputImage(image_url=f"data:image/png;base64,{PIXEL}"), *parts] if image else [*parts]
    task = Task(
        id=TaskId(taskset="echo", task_id="1"),
        responses_create_params=ResponsesBody(
            input=[InputMessage(role="user", content=content)], temperature=temperature, metadata=metadata
        ),
        task_data={"phrase": phrase},
    )
    key = RolloutKey(task_hash=task.content_hash(), repeat=0)
    return RunRequest(key=key, task_index=0, task=task, environment="echo", rollout_id="t0-r0")


@contextlib.asynccontextmanager
async def in_process_gym(
    folder: Path,
    *,
    resources_type: type[EchoServer] = EchoServer,
    agent_type: type[AgentServer[Any]] = SingleCall,
    policy: JsonObject | None = None,
    agent_timeout_s: float = 20,
) -> AsyncIterator[InProcessGym]:
    async with contextlib.AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(ScriptedEndpoint())
        block = {"base_url": endpoint.url, "model": "tiny", **_IMPATIENT, **(policy or {})}
        policy_url, policy_server = await _serve(stack, VllmModel, block, "policy_model", folder, {})
        peers = {"policy_model": Peer(url=policy_url, token=SecretStr(TOKEN))}
        agent_url, _ = await _serve(
            stack, agent_type, {"model_server": POLICY, "timeout_s": agent_timeout_s}, "agent", folder, peers
        )
        resources_url, resources = await _serve(stack, resources_type, {}, "echo", folder, peers)
        pool = await stack.enter_async_context(HttpPool())
        servers = EpisodeServers(
            resources=pool.service(resources_url, TOKEN),
            agent=pool.service(agent_url, TOKEN),
            policy=pool.service(policy_url, TOKEN),
            agent_timeout_s=agent_timeout_s,
        )
        assert isinstance(resources, EchoServer)
        assert isinstance(policy_server, VllmModel)
        storage = EpisodeStorage(AssetStore(folder / "assets"), folder / "captures")
        yield InProcessGym(endpoint, servers, storage, resources, policy_server)


_IMPATIENT = {
    "retry": {"max_attempts": 2, "first_pause_s": 0.01, "max_pause_s": 0.05, "patience_s": 0.5},
    "idle_timeout_s": 0.3,
    "context_tokens": 4096,
    "max_output_tokens": 512,
}
"""Faults show within a test's time."""


async def _serve(
    stack: contextlib.AsyncExitStack,
    kind: type[Server[Wire]],
    block: JsonObject,
    name: str,
    folder: Path,
    peers: dict[str, Peer],
) -> tuple[str, Server[Wire]]:
    part = ServerSlice(
        name=name, type="any", implementation="any", block={}, run_token=SecretStr(TOKEN), peers=peers,
        state_dir=str(folder / name), url="http://unused",
    )  # fmt: skip
    server = kind(kind.config_type.model_validate(block), ServerContext(part, HttpPool()))
    return await stack.enter_async_context(serving(server.make_app())), server
