"""A real gym for one test: every server a process, scripted endpoints behind them, and proof that nothing stays.

async with live_gym(tmp_path, script(Says("Look.", (bash("ls"),)), ANSWER)) as gym:
    row = await gym.play(OPENCODE)      # one episode of one task, without retries
    result = await gym.evaluate()       # a run with its files, retries included
"""

import asyncio
import io
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from PIL import Image

from gym_core.capture.images import make_data_url
from gym_core.cli.selection import Selection
from gym_core.client import GymClient
from gym_core.errors import SandboxUnavailable
from gym_core.launch.runner import RunningGym, running_gym
from gym_core.launch.warmup import start_warmup
from gym_core.sandbox import toolkit
from gym_core.sandbox.owner import start_ticks
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from gym_core.types.run import RunOptions, RunResult
from gym_core.types.wire import JsonObject
from tests.fakes.model import Calls, Rule, Says, ScriptedEndpoint, Seen

needs_toolkit = pytest.mark.skipif(not toolkit.is_built(), reason="no toolkit: run `gym sandbox build`")

OPENCODE, ONE_CALL = "through_opencode", "in_one_call"
"""Environments: the same tasks and grader, with the real harness and with one call that needs none."""
POLICY, JUDGE, RESOURCES, OPENCODE_AGENT = "policy_model", "judge_model", "visual_coding_opencode", "opencode_agent"
QUESTION = "How many are there?"
ANSWER = "The answer is \\boxed{42}"
EQUIVALENT = json.dumps({"verdict": "equivalent", "confidence": 1, "reason": "the same"})
PROVIDER_KEY = "provider-key-5d1f"
JUDGE_KEY = "judge-key-9c2e"
PATIENT_S = 60.0

FILES = (
    "resources_servers/visual_coding_opencode/configs/visual_coding_opencode.yaml",
    "agent_servers/single_call/configs/single_call.yaml",
)
VLLM = ("model_servers/vllm_model/configs/vllm_model.yaml",)
SCRIPTED = ("model_servers/scripted_model/configs/scripted_model.yaml",)
QUICK_POLICY = {
    f"{POLICY}.model_servers.vllm_model.retry": {
        "max_attempts": 3,
        "first_pause_s": 0.05,
        "max_pause_s": 1.0,
        "patience_s": 4.0,
    },
    f"{POLICY}.model_servers.vllm_model.idle_timeout_s": 1.0,
    f"{POLICY}.model_servers.vllm_model.context_tokens": 32768,
    f"{POLICY}.model_servers.vllm_model.max_output_tokens": 4096,
}
QUICK = {
    f"{JUDGE}.model_servers.openai_model.max_http_attempts": 1,
    f"{RESOURCES}.resources_servers.visual_coding_opencode.sandbox_config.resources": {
        "cpu": 2,
        "memory_mib": 4096,
        "workspace_mib": 256,
        "pids": 256,
    },
    f"{OPENCODE_AGENT}.agent_servers.opencode_agent.timeout_s": 60,
}
"""What a fault costs in waiting, made short."""


def script(*turns: "Says | str") -> Rule:
    """The turn follows from the conversation: how often the assistant has spoken."""

    def rule(messages: list[JsonObject]) -> Says | str:
        spoken = sum(message["role"] == "assistant" for message in messages)
        return turns[min(spoken, len(turns) - 1)]

    return rule


def bash(command: str, **more: object) -> Calls:
    return Calls("bash", json.dumps({"command": command, "description": "work", **more}))


def make_row(index: int = 0, **changes: object) -> JsonObject:
    """A task whose right answer is 42; each index has another picture."""
    content = io.BytesIO()
    Image.new("RGB", (32, 24), (index % 256, 80, 40)).save(content, "PNG")
    parts = [
        {"type": "input_image", "image_url": make_data_url(content.getvalue())},
        {"type": "input_text", "text": f"{QUESTION} Answer in \\boxed{{}}."},
    ]
    row: JsonObject = {
        "task_id": {"taskset": "faults", "task_id": str(index)},
        "responses_create_params": {"input": [{"type": "message", "role": "user", "content": parts}]},
        "question": QUESTION,
        "expected_answer": "42",
    }
    return row | changes


@dataclass
class LiveGym:
    running: RunningGym
    policy: ScriptedEndpoint
    judge: ScriptedEndpoint
    folder: Path
    head: GymClient = field(init=False)

    def __post_init__(self) -> None:
        self.head = GymClient.over(self.running.client)

    async def play(self, environment: str = ONE_CALL, **changes: object) -> JsonObject:
        """The flat row of one episode. Afterwards no sandbox of it is left."""
        body = json.dumps(make_row(**changes)).encode()  # type: ignore[arg-type]  # `index` is one of the changes
        raw = await self.running.client.call_raw("POST", f"/environments/{environment}/run", body, timeout_s=300)
        assert self.boxes() == []
        row: JsonObject = json.loads(raw)
        return row

    async def start(
        self, environment: str = ONE_CALL, *, tasks: int = 1, rows: list[JsonObject] | None = None, **options: object
    ) -> str:
        """Id of a run over so many tasks, or these rows, into `self.output`."""
        dataset = self.folder / "tasks.jsonl"
        lines = [json.dumps(row) + "\n" for row in rows or map(make_row, range(tasks))]
        dataset.write_text("".join(lines))
        values = {"environment": environment, "output_jsonl_fpath": str(self.output)} | options
        return await self.head.start_run(RunOptions.model_validate(values))

    async def result_of(self, run_id: str) -> RunResult:
        *_, last = [event async for event in self.head.watch(run_id)]
        assert isinstance(last, RunResult)
        assert self.boxes() == []
        return last

    async def evaluate(self, environment: str = ONE_CALL, *, tasks: int = 1, **options: object) -> RunResult:
        return await self.result_of(await self.start(environment, tasks=tasks, **options))

    @property
    def asked(self) -> list[Seen]:
        """What episodes asked the policy; a run's own look at the endpoint is left out."""
        return [seen for seen in self.policy.requests if QUESTION.encode() in seen.raw]

    @property
    def output(self) -> Path:
        return self.folder / "out" / "x.jsonl"

    def rows(self) -> list[JsonObject]:
        return _json_lines(self.output)

    def failures(self) -> list[JsonObject]:
        return _json_lines(self.output.with_name("x_failures.jsonl"))

    async def server(self, name: str) -> JsonObject:
        return next(found for found in await self.head.servers() if found["name"] == name)

    def boxes(self) -> list[str]:
        """Names of the sandboxes that are alive, or were not cleaned up."""
        return sorted(path.name for path in (self.folder / "boxes" / "boxes").glob("*"))

    def sandbox_processes(self) -> list[int]:
        """The bubblewraps of this gym, as the host numbers them."""
        return [pid for pid in descendants(os.getpid()) if _comm(pid) == "bwrap"]

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.running.state_dir.rglob("*.log")))

    async def until(self, happens: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENT_S):
            while not happens():  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(0.05)


@asynccontextmanager
async def live_gym(
    folder: Path,
    rule: Rule,
    *,
    judge: Rule = lambda _: EQUIVALENT,
    changes: dict[str, object] | None = None,
    search_dirs: Sequence[str] = (),
    policy_files: Sequence[str] = VLLM,
) -> AsyncIterator[LiveGym]:
    """`changes` are overrides by dotted path. On leaving, no process and no sandbox of the gym may be left."""
    await _must_have_sandboxes()
    async with ScriptedEndpoint(rule) as policy, ScriptedEndpoint(judge) as judge_endpoint:
        values: dict[str, object] = {
            **QUICK,
            **(QUICK_POLICY if policy_files is VLLM else {}),
            "policy_base_url": policy.url,
            "policy_api_key": PROVIDER_KEY,
            "policy_model_name": policy.model,
            "visual_coding_opencode_judge_base_url": judge_endpoint.url,
            "visual_coding_opencode_judge_api_key": JUDGE_KEY,
            "sandbox.local.state_dir": str(folder / "boxes"),
            **(changes or {}),
        }
        overrides = [f"++{path}={json.dumps(value)}" for path, value in values.items()]
        selection = Selection(
            None, None, None, (*FILES, *policy_files, _environments(folder)), tuple(search_dirs), tuple(overrides)
        )
        checked = await asyncio.to_thread(selection.check)
        started: dict[int, int | None] = {}
        others = set(descendants(os.getpid()))
        async with running_gym(checked, warmup=start_warmup(folder / "state")) as running:
            gym = LiveGym(running, policy, judge_endpoint, folder)
            try:
                yield gym
            finally:
                started = {pid: start_ticks(pid) for pid in descendants(os.getpid()) if pid not in others}
        # The nursery has ended; what it forked and the sandboxes' processes may be a moment behind.
        deadline = time.monotonic() + 20
        while (left := _still_there(started)) and time.monotonic() < deadline:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)
        assert left == {}, left
        assert gym.boxes() == []


def _environments(folder: Path) -> str:
    dataset = {"name": "faults", "type": "benchmark", "jsonl_fpath": str(folder / "tasks.jsonl")}
    blocks = {
        name: {
            "environment_servers": {
                "single_agent_turn_legacy": {
                    "resources_server": {"type": "resources_servers", "name": RESOURCES},
                    "agent_server": {"type": "agent_servers", "name": agent},
                    "datasets": [dataset],
                }
            }
        }
        for name, agent in ((OPENCODE, OPENCODE_AGENT), (ONE_CALL, "single_call"))
    }
    path = folder / "environments.yaml"
    path.write_text(yaml.safe_dump(blocks))
    return str(path)


async def _must_have_sandboxes() -> None:
    provider = LocalProvider(LocalSandboxConfig())
    try:
        await provider.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    finally:
        await provider.aclose()


def descendants(root: int) -> list[int]:
    """Living processes below one, not itself."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(path.parent.name)] = int(fields[1])
    found, todo = [], [root]
    while todo:
        parent = todo.pop()
        children = [pid for pid, above in parents.items() if above == parent]
        found += children
        todo += children
    return found


def opencode_processes() -> list[int]:
    """Of this test's sandboxes, as the host numbers them."""
    return [pid for pid in descendants(os.getpid()) if _comm(pid).startswith("opencode")]


def kill(pids: Sequence[int]) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _still_there(started: dict[int, int | None]) -> dict[int, str]:
    return {pid: _comm(pid) for pid, ticks in started.items() if ticks is not None and start_ticks(pid) == ticks}


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _json_lines(path: Path) -> list[JsonObject]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
