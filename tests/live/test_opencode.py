"""Real OpenCode in real sandboxes against a scripted endpoint: every ending, and the traps it sets a harness."""

import asyncio
import io
import json
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from PIL import Image

from agent_servers.opencode_agent.app import OpenCodeAgent, OpenCodeAgentConfig
from gym_core.capture.images import make_data_url
from gym_core.errors import FailureKind, SandboxUnavailable
from gym_core.sandbox import toolkit
from gym_core.sandbox.contract import Launch, ModelOnly, Sandbox, SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputText,
    ResponsesBody,
    ResponsesReply,
)
from gym_core.types.session import CaptureSummary
from gym_core.types.wire import JsonObject
from tests.fakes.agents import POLICY, AgentClient, open_agent_server
from tests.fakes.model import Calls, Fault, Rule, Says, ScriptedEndpoint

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not toolkit.is_built(), reason="no toolkit: run `gym sandbox build`"),
]

ANSWER = "The answer is \\boxed{42}"
PROMPT = "Which \"shape\" is 'red'? $HOME `ls` \\boxed{}\n\n  Two  spaces, é\U0001f600."
RESOURCES = SandboxResources(cpu=2, memory_mib=4096, workspace_mib=256)


def drawn(width: int = 64, height: int = 48) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(content, "PNG")
    return content.getvalue()


def bash(command: str, **more: object) -> Calls:
    return Calls("bash", json.dumps({"command": command, "description": "work", **more}))


def read(path: str) -> Calls:
    return Calls("read", json.dumps({"filePath": path}))


def script(*turns: "Says | str") -> Rule:
    """The turn follows from the conversation: how often the assistant has spoken."""

    def rule(messages: list[JsonObject]) -> Says | str:
        spoken = sum(message["role"] == "assistant" for message in messages)
        return turns[min(spoken, len(turns) - 1)]

    return rule


def body(picture: bytes) -> ResponsesBody:
    shown = InputImage(image_url=make_data_url(picture))
    return ResponsesBody(input=[InputMessage(role="user", content=[shown, InputText(text=PROMPT)])])


@dataclass
class Stage:
    agent: AgentClient
    sandbox: Sandbox
    endpoint: ScriptedEndpoint

    async def play(self, picture: bytes | None = None) -> ResponsesReply:
        assert (await self.agent.open()).status_code == 200
        return await self.agent.respond(body(picture or drawn()))

    async def shell(self, line: str) -> str:
        result = await self.sandbox.exec(Launch(argv=["/bin/sh", "-c", line], timeout_s=20))
        return result.stdout.decode()

    async def until(self, happens: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not happens():  # noqa: ASYNC110 - the endpoint has no event for it
                await asyncio.sleep(0.05)

    def count(self) -> CaptureSummary:
        seen = self.endpoint.requests
        images = ["a" * 64] if any("image_url" in str(request.body) for request in seen) else []
        first = 1.0 if seen else None
        answers = [self.endpoint.rule(request.body["messages"]) for request in seen if request.fault is Fault.NONE]
        tools = sum(len(answer.calls) for answer in answers if isinstance(answer, Says))
        return CaptureSummary(session_id="s1", calls=len(seen), tool_calls=tools, first_call_at=first, images=images)


@asynccontextmanager
async def stage(rule: Rule, *, timeout_s: float = 60.0, start_timeout_s: float = 60.0) -> AsyncIterator[Stage]:
    provider = LocalProvider(LocalSandboxConfig(toolkit=str(toolkit.toolkit_dir())))
    async with ScriptedEndpoint(rule) as endpoint:
        spec = SandboxSpec(network=ModelOnly(host="127.0.0.1", port=endpoint.port), resources=RESOURCES)
        try:
            sandbox = await provider.create(f"box-{secrets.token_hex(4)}", spec)
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        config = OpenCodeAgentConfig(model_server=POLICY, timeout_s=timeout_s, start_timeout_s=start_timeout_s)
        try:
            async with open_agent_server(OpenCodeAgent, config, sandbox=sandbox) as agent:
                found = Stage(agent, sandbox, endpoint)
                agent.policy.count = found.count
                yield found
        finally:
            await provider.aclose()


def code(reply: ResponsesReply) -> str | None:
    return reply.error.code if reply.error else None


CROP = (
    "python3 -c \"from PIL import Image; Image.open('image.png').crop((0, 0, 20, 10)).save('crop.png'); print('cut')\""
)


async def test_the_model_crops_looks_and_answers() -> None:
    turns = (
        Says("I will crop.", (bash(CROP),), reasoning="  first \n"),
        Says("", (read("/workspace/crop.png"),)),
        ANSWER,
    )
    async with stage(script(*turns)) as it:
        reply = await it.play()
        report = await it.agent.close()
        requests = [request.body for request in it.endpoint.requests]
        crop = await it.sandbox.read("/workspace/crop.png")
    assert (reply.status, reply.final_text) == ("completed", ANSWER)
    assert [image.image_url for image in reply.images()] == [make_data_url(crop)]
    assert (report.tool_calls, report.images_read, report.notes) == ({"bash": 1, "read": 1}, 1, [])
    assert reply.usage.output_tokens > 0

    first, *_, last = (request["messages"] for request in requests)
    parts = first[1]["content"]
    assert parts[-1]["text"] == PROMPT
    assert [part["image_url"]["url"] for part in parts if part["type"] == "image_url"] == [make_data_url(drawn())]
    assert last[-1]["content"][-1]["image_url"]["url"] == make_data_url(crop)
    assert [request["model"] for request in requests] == ["policy"] * 3
    assert [request["max_tokens"] for request in requests] == [4096] * 3


async def test_each_call_goes_on_where_the_last_one_ended() -> None:
    """Three equal calls, AGENTS.md written by the model, a helper session asked for: the calls stay one chain."""
    rules = bash("echo RULES > AGENTS.md; echo RULES > CLAUDE.md; mkdir -p .opencode; git init -q .")
    task = Calls("task", json.dumps({"description": "d", "prompt": "p", "subagent_type": "general"}))
    same = bash("echo same")
    turns = (
        Says("", (rules,)),
        Says("", (same, same, same)),
        Says("", (task,)),
        Says("", (bash("seq 1 30000"),)),
        ANSWER,
    )
    async with stage(script(*turns)) as it:
        reply = await it.play()
        conversations = [request.body["messages"] for request in it.endpoint.requests]
        tools = [[tool["function"]["name"] for tool in request.body["tools"]] for request in it.endpoint.requests]
    assert reply.status == "completed"
    assert len(conversations) == 5
    for earlier, later in zip(conversations, conversations[1:], strict=False):
        assert later[: len(earlier)] == earlier
        assert later[len(earlier)]["role"] == "assistant"
    assert tools == [["bash", "edit", "glob", "grep", "read", "write"]] * 5


async def test_the_sandbox_has_what_opencode_would_fetch() -> None:
    grep = Calls("grep", json.dumps({"pattern": "needle", "path": "/workspace"}))
    write = Calls("write", json.dumps({"filePath": "/workspace/hay.txt", "content": "a needle\n"}))
    python = bash(
        "python3 -c 'import av, cv2, matplotlib.pyplot, numpy, scipy, PIL; print(\"all here\")'; "
        "date +%Z; pwd; echo $TMPDIR"
    )
    async with stage(script(Says("", (write,)), Says("", (grep, python)), ANSWER)) as it:
        reply = await it.play()
    outputs = [str(item.output) for item in reply.output if isinstance(item, FunctionCallOutput)]
    assert "hay.txt" in outputs[1]
    assert "needle" in outputs[1]
    assert outputs[2].split("\n")[0] == "all here"
    assert outputs[2].split("\n")[2:4] == ["/workspace", "/tmp"]


async def test_large_pictures_reach_the_model_and_the_transcript_untouched() -> None:
    """By default OpenCode shrinks them; through a pipe it would lose most of its output."""
    noise = random.Random(1).randbytes(2100 * 1200 * 3)
    content = io.BytesIO()
    Image.frombytes("RGB", (2100, 1200), noise).save(content, "PNG", compress_level=1)
    copies = bash("for i in 1 2 3; do cp image.png copy_$i.png; done")
    looks = tuple(read(f"/workspace/copy_{number}.png") for number in (1, 2, 3))
    async with stage(script(Says("", (copies,)), Says("", looks), ANSWER)) as it:
        reply = await it.play(content.getvalue())
        sent = [part for part in it.endpoint.requests[0].body["messages"][1]["content"] if part["type"] == "image_url"]
    url = make_data_url(content.getvalue())
    assert sent[0]["image_url"]["url"] == url
    assert [image.image_url for image in reply.images()] == [url] * 3
    assert reply.final_text == ANSWER


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (Says("The answer is", finish_reason="length"), FailureKind.OUTPUT_CAP),
        (Says(""), FailureKind.NO_FINAL_ANSWER),
        (Says("", reasoning="It must be 42."), FailureKind.NO_FINAL_ANSWER),
        (Says("", finish_reason="content_filter"), FailureKind.NO_FINAL_ANSWER),
    ],
)
async def test_an_ending_without_an_answer_is_the_models(says: Says, kind: FailureKind) -> None:
    async with stage(script(says)) as it:
        reply = await it.play()
    assert (reply.status, code(reply)) == ("incomplete", kind)


async def test_a_full_context_ends_the_run() -> None:
    async with stage(script(Says("", (bash("seq 1 9000"),)))) as it:
        it.endpoint.context_tokens = 60_000
        reply = await it.play()
    assert (reply.status, code(reply)) == ("incomplete", FailureKind.CONTEXT_LIMIT)
    assert reply.output


async def test_a_command_that_never_ends_meets_the_time_limit_and_nothing_survives() -> None:
    stuck = bash("setsid sleep 987 & sleep 987 | cat", timeout=900_000)
    async with stage(script(Says("Wait.", (stuck,))), timeout_s=12) as it:
        reply = await it.play()
        left = await it.shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert (reply.status, code(reply)) == ("incomplete", FailureKind.AGENT_TIMEOUT)
    last = reply.output[-1]
    assert isinstance(last, FunctionCall)
    assert (last.status, "sleep 987" in last.arguments) == ("incomplete", True)
    assert "sleep 987" not in left
    assert "opencode" not in left


async def test_an_opencode_that_dies_before_the_model_used_a_tool_is_our_fault() -> None:
    async with stage(script(ANSWER)) as it:
        it.endpoint.fail(Fault.HANG)
        playing = asyncio.ensure_future(it.play())
        await it.until(lambda: len(it.endpoint.requests) == 1)
        await it.shell("kill -9 $(grep -l '^opencode' /proc/[0-9]*/comm | cut -d/ -f3)")
        reply = await playing
    assert (reply.status, code(reply)) == ("failed", FailureKind.AGENT_CRASHED)


async def test_an_opencode_that_dies_later_is_scored_and_what_was_seen_is_kept() -> None:
    async with stage(script(Says("Look.", (bash("echo hi"),)), ANSWER)) as it:
        it.endpoint.fail(Fault.NONE, Fault.HANG)
        playing = asyncio.ensure_future(it.play())
        await it.until(lambda: len(it.endpoint.requests) == 2)
        await it.shell("kill -9 $(grep -l '^opencode' /proc/[0-9]*/comm | cut -d/ -f3)")
        reply = await playing
    assert (reply.status, code(reply)) == ("incomplete", FailureKind.AGENT_RUN_ERROR)
    assert any(isinstance(item, FunctionCallOutput) for item in reply.output)


async def test_a_model_that_kills_opencode_ends_its_own_run() -> None:
    kill = bash("kill -9 $(grep -l '^opencode' /proc/[0-9]*/comm | cut -d/ -f3); sleep 5")
    async with stage(script(Says("Clean up.", (kill,)))) as it:
        reply = await it.play()
    assert (reply.status, code(reply)) == ("incomplete", FailureKind.AGENT_RUN_ERROR)


@pytest.mark.parametrize("fault", [Fault.BAD_REQUEST, Fault.UNAUTHORIZED, Fault.ERROR_EVENT])
async def test_a_first_call_that_is_refused_is_the_endpoints_fault(fault: Fault) -> None:
    async with stage(script(ANSWER)) as it:
        it.endpoint.fail_always(fault)
        reply = await it.play()
    assert (reply.status, code(reply)) == ("failed", FailureKind.MODEL_UNAVAILABLE)


async def test_a_start_that_hangs_is_started_once_more() -> None:
    async with stage(script(ANSWER), start_timeout_s=6.0) as it:
        playing = asyncio.ensure_future(it.play())
        pids = ""
        while not pids:
            pids = await it.shell("grep -l '^opencode' /proc/[0-9]*/comm | cut -d/ -f3")
        await it.shell(f"kill -STOP {pids}")
        assert not it.endpoint.requests
        reply = await playing
        report = await it.agent.close()
    assert (reply.final_text, report.notes) == (ANSWER, ["hung_at_start"])


async def test_a_picture_that_opencode_cannot_decode_never_starts_a_call() -> None:
    async with stage(script(ANSWER)) as it:
        await it.agent.open()
        await it.agent.http.put("/v1/agent_sessions/s1/images/map.png", content=drawn())
        await it.sandbox.write("/workspace/map.png", drawn()[:60])
        reply = await it.agent.respond(body(drawn()))
    assert (reply.status, code(reply)) == ("failed", FailureKind.INVALID_TASK)
    assert not it.endpoint.requests


async def test_a_sandbox_that_is_lost_in_mid_run_is_not_scored() -> None:
    async with stage(script(Says("", (bash("sleep 600", timeout=900_000),)))) as it:
        await it.agent.open()
        playing = asyncio.ensure_future(it.agent.respond_raw(body(drawn()).model_dump_json()))
        await it.until(lambda: bool(it.endpoint.requests))
        await it.sandbox.close()
        reply = await playing
    assert (reply.status_code, reply.json()["error"]["kind"]) == (404, FailureKind.SANDBOX_LOST)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("dd if=/dev/zero of=/workspace/fill bs=1M", "No space left on device"),
        ("python3 -c 'bytearray(6 << 30)'; echo over", "Killed"),
    ],
)
async def test_a_command_that_takes_all_disk_or_memory_fails_alone(command: str, says: str) -> None:
    async with stage(script(Says("Take.", (bash(command),)), ANSWER)) as it:
        reply = await it.play()
    (output,) = [item.output for item in reply.output if isinstance(item, FunctionCallOutput)]
    assert says in str(output)
    assert (reply.status, reply.final_text) == ("completed", ANSWER)


async def test_a_model_that_fills_the_disk_under_opencode_ends_its_own_run() -> None:
    fill = bash("dd if=/dev/zero of=/home/agent/fill bs=1M")
    async with stage(script(Says("Fill.", (fill,)), Says("", (bash("echo hi"),)), ANSWER)) as it:
        reply = await it.play()
    assert (reply.status, code(reply)) == ("incomplete", FailureKind.AGENT_RUN_ERROR)
