"""The agent server over its own routes, with a fake sandbox behind a real lease: what it does when a run goes wrong."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from agent_servers.opencode_agent import play, settings
from agent_servers.opencode_agent.app import OpenCodeAgent, OpenCodeAgentConfig
from gym_core.errors import FailureKind
from gym_core.sandbox.contract import ExecResult, ModelOnly, NetworkPolicy, NoNetwork, SandboxSpec
from gym_core.types.responses import InputImage, InputMessage, InputText, ResponsesBody, ResponsesReply
from gym_core.types.session import CaptureSummary
from tests.fakes.agents import POLICY, AgentClient, open_agent_server
from tests.fakes.opencode import FakeOpenCode, Recording, recorded
from tests.fakes.sandbox import FakeSandbox
from tests.unit.opencode.pictures import data_url, picture

PICTURE = picture()
BODY = ResponsesBody(
    input=[
        InputMessage(
            role="user", content=[InputImage(image_url=data_url(PICTURE)), InputText(text='Which "shape" is red?')]
        )
    ]
)
CALLED = CaptureSummary(session_id="s1", calls=3, first_call_at=1.0, images=["a" * 64])
USED_TOOLS = CALLED.model_copy(update={"tool_calls": 1})
NOT_CALLED = CaptureSummary(session_id="s1")
MODEL_ONLY = ModelOnly(host="127.0.0.1", port=8001)
AT_ONCE_S = 0.02
TIMED_OUT = ExecResult(exit_code=None, signal=9, timed_out=True)


@dataclass
class Stage:
    agent: AgentClient
    sandbox: FakeSandbox
    opencode: FakeOpenCode

    async def play(self) -> ResponsesReply:
        assert (await self.agent.open()).status_code == 200
        return await self.agent.respond(BODY)


@asynccontextmanager
async def stage(
    opencode: FakeOpenCode,
    calls: CaptureSummary | None = CALLED,
    *,
    network: NetworkPolicy = MODEL_ONLY,
    start_timeout_s: float = 5.0,
) -> AsyncIterator[Stage]:
    sandbox = FakeSandbox("box-1", SandboxSpec(network=network))
    sandbox.on_exec(opencode)
    config = OpenCodeAgentConfig(model_server=POLICY, timeout_s=30, start_timeout_s=start_timeout_s)
    async with open_agent_server(OpenCodeAgent, config, sandbox=sandbox) as agent:
        agent.policy.calls = calls
        yield Stage(agent, sandbox, opencode)


async def test_a_run_hands_over_its_transcript_and_a_report() -> None:
    async with stage(FakeOpenCode(recorded("normal"))) as it:
        reply = await it.play()
        report = await it.agent.close()
    assert (reply.status, reply.error, reply.final_text) == ("completed", None, "The answer is \\boxed{42}")
    assert len(list(reply.images())) == 1
    assert (report.tool_calls, report.images_read, report.notes) == ({"bash": 1, "read": 1}, 1, [])
    assert report.versions == {"opencode": "1.17.11"}
    assert report.seconds > 0


async def test_opencode_finds_image_prompt_and_config_in_the_sandbox() -> None:
    async with stage(FakeOpenCode(recorded("normal"))) as it:
        await it.play()
        files, modes, (run,) = it.sandbox.files, it.sandbox.modes, it.opencode.runs
    assert files["/workspace/image.png"] == PICTURE
    assert files[settings.PROMPT_FILE] == b'Which "shape" is red?'
    assert modes[settings.CONFIG_FILE] == 0o600
    provider = json.loads(files[settings.CONFIG_FILE])["provider"]["policy"]
    assert provider["options"]["apiKey"] == "session-key"
    assert provider["options"]["baseURL"] == it.sandbox.model_url
    assert "--file=/workspace/image.png" in run.argv[-1]
    assert "session-key" not in str(run.argv) + str(run.env)
    assert [path for path in files if path.startswith("/workspace")] == ["/workspace/image.png"]


async def test_uploaded_images_are_shown_after_the_bodys() -> None:
    async with stage(FakeOpenCode(recorded("normal"))) as it:
        await it.agent.open()
        uploaded = await it.agent.http.put("/v1/agent_sessions/s1/images/map.png", content=picture(color="blue"))
        assert uploaded.status_code == 204
        await it.agent.respond(BODY)
        line = it.opencode.runs[0].argv[-1]
    assert "--file=/workspace/image.png --file=/workspace/map.png <" in line


async def test_a_whole_run_costs_no_export() -> None:
    async with stage(FakeOpenCode(recorded("normal"))) as it:
        await it.play()
        assert it.opencode.exports == 0


@pytest.mark.parametrize(
    ("name", "result", "calls", "status", "kind"),
    [
        ("length", ExecResult(exit_code=0), CALLED, "incomplete", FailureKind.OUTPUT_CAP),
        ("empty", ExecResult(exit_code=0), CALLED, "incomplete", FailureKind.NO_FINAL_ANSWER),
        ("context_full", ExecResult(exit_code=1), CALLED, "incomplete", FailureKind.CONTEXT_LIMIT),
        ("killed_in_bash", TIMED_OUT, CALLED, "incomplete", FailureKind.AGENT_TIMEOUT),
        ("killed_itself", ExecResult(exit_code=None, signal=9), USED_TOOLS, "incomplete", FailureKind.AGENT_RUN_ERROR),
        ("killed_in_bash", ExecResult(exit_code=None, signal=11), CALLED, "failed", FailureKind.AGENT_CRASHED),
        ("unavailable", ExecResult(exit_code=1), CALLED, "failed", FailureKind.MODEL_UNAVAILABLE),
        ("corrupt_image", ExecResult(exit_code=1), NOT_CALLED, "failed", FailureKind.INVALID_TASK),
    ],
)
async def test_a_broken_run_says_what_broke_and_keeps_what_was_seen(
    name: str, result: ExecResult, calls: CaptureSummary, status: str, kind: FailureKind
) -> None:
    async with stage(FakeOpenCode(recorded(name), result), calls) as it:
        reply = await it.play()
    assert (reply.status, reply.error and reply.error.code) == (status, kind)
    assert bool(reply.output) == (name not in ("empty", "corrupt_image"))


async def test_after_a_time_out_everything_is_stopped_and_the_export_shows_what_was_running() -> None:
    async with stage(FakeOpenCode(recorded("killed_in_bash"), TIMED_OUT)) as it:
        reply = await it.play()
        names = [launch.argv[-1] for launch in it.sandbox.launches]
    assert reply.output[-1].type == "function_call"
    stop = names.index("kill -9 -1")
    assert "opencode run" in names[stop - 1]
    assert "opencode export" in names[stop + 1]


async def test_a_cut_event_file_is_completed_from_the_export() -> None:
    whole = recorded("normal")
    async with stage(FakeOpenCode(Recording(whole.events[:3000], whole.export))) as it:
        reply = await it.play()
        assert (reply.final_text, it.opencode.exports) == ("The answer is \\boxed{42}", 1)


async def test_without_an_export_the_cut_events_are_what_is_known() -> None:
    async with stage(FakeOpenCode(Recording(recorded("normal").events[:3000]))) as it:
        reply = await it.play()
        report = await it.agent.close()
    assert (reply.error and reply.error.code) == FailureKind.AGENT_CRASHED
    assert reply.output
    assert "export_missing" in report.notes


async def test_a_journal_too_large_to_fetch_is_read_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "MAX_JOURNAL_BYTES", 2000)
    monkeypatch.setattr(play, "TAIL_BYTES", 1500)
    async with stage(FakeOpenCode(recorded("normal"))) as it:
        reply = await it.play()
        report = await it.agent.close()
    assert (reply.status, reply.final_text) == ("completed", "The answer is \\boxed{42}")
    assert "events_cut" in report.notes


async def test_a_hang_at_the_start_is_started_once_more() -> None:
    async with stage(FakeOpenCode(recorded("normal"), hangs=1), NOT_CALLED, start_timeout_s=AT_ONCE_S) as it:
        playing = asyncio.ensure_future(it.play())
        while len(it.opencode.runs) < 2:  # noqa: ASYNC110 - the fake has no event for it
            await asyncio.sleep(0.001)
        it.agent.policy.calls = CALLED
        reply = await playing
        report = await it.agent.close()
    assert (reply.status, len(it.opencode.runs), report.notes) == ("completed", 2, ["hung_at_start"])
    assert it.opencode.stops == 2


async def test_two_hangs_are_our_failure() -> None:
    async with stage(FakeOpenCode(hangs=9), NOT_CALLED, start_timeout_s=AT_ONCE_S) as it:
        reply = await it.play()
    assert (reply.status, reply.error and reply.error.code) == ("failed", FailureKind.AGENT_START_FAILED)
    assert (len(it.opencode.runs), it.opencode.stops) == (2, 2)


async def test_a_start_that_fails_says_what_opencode_said() -> None:
    broken = FakeOpenCode(result=ExecResult(exit_code=127), log=b"/bin/sh: 1: exec: opencode: not found\n")
    async with stage(broken, NOT_CALLED) as it:
        reply = await it.play()
    assert reply.error is not None
    assert reply.error.code == FailureKind.AGENT_START_FAILED
    assert "exit code 127" in reply.error.message
    assert "opencode: not found" in reply.error.message


async def test_a_slow_start_that_works_is_not_taken_for_a_hang() -> None:
    slow = FakeOpenCode(recorded("normal"), is_busy=True, ends_late=asyncio.Event())
    async with stage(slow, NOT_CALLED, start_timeout_s=AT_ONCE_S) as it:
        playing = asyncio.ensure_future(it.play())
        while not any("/proc/" in launch.argv[-1] for launch in it.sandbox.launches):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        it.agent.policy.calls = CALLED
        assert slow.ends_late is not None
        slow.ends_late.set()
        reply = await playing
    assert (reply.status, len(slow.runs)) == ("completed", 1)


async def test_a_policy_server_that_cannot_be_asked_stops_nothing() -> None:
    late = FakeOpenCode(recorded("normal"), ends_late=asyncio.Event())
    async with stage(late, None, start_timeout_s=AT_ONCE_S) as it:
        playing = asyncio.ensure_future(it.play())
        await asyncio.sleep(0.1)
        assert late.ends_late is not None
        late.ends_late.set()
        assert ((await playing).status, len(late.runs)) == ("completed", 1)


async def test_a_sandbox_that_dies_is_lost_and_not_scored() -> None:
    late = FakeOpenCode(recorded("normal"), ends_late=asyncio.Event())
    async with stage(late) as it:
        await it.agent.open()
        playing = asyncio.ensure_future(it.agent.respond_raw(BODY.model_dump_json()))
        while not late.runs:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        it.sandbox.die()
        reply = await playing
    assert reply.json()["error"]["kind"] == FailureKind.SANDBOX_LOST


async def test_closing_a_session_ends_its_run_in_the_sandbox() -> None:
    endless = FakeOpenCode(recorded("normal"), ends_late=asyncio.Event())
    async with stage(endless) as it:
        await it.agent.open()
        playing = asyncio.ensure_future(it.agent.respond_raw(BODY.model_dump_json()))
        while not endless.runs:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        await it.agent.close()
        assert (await playing).status_code == 409
        while not it.sandbox.cancelled:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)


async def test_a_sandbox_without_the_policy_server_is_refused_with_the_remedy() -> None:
    async with stage(FakeOpenCode(), network=NoNetwork()) as it:
        await it.agent.open()
        reply = await it.agent.respond_raw(BODY.model_dump_json())
    assert reply.status_code == 409
    assert "sandbox_network_access: model_only" in reply.text


async def test_a_bad_task_image_is_refused_before_anything_starts() -> None:
    broken = InputImage(image_url="data:image/png;base64,iVBORw0KGgo=")
    body = ResponsesBody(input=[InputMessage(role="user", content=[broken, InputText(text="?")])])
    async with stage(FakeOpenCode()) as it:
        await it.agent.open()
        reply = await it.agent.respond_raw(body.model_dump_json())
        assert (reply.status_code, reply.json()["error"]["kind"]) == (422, FailureKind.INVALID_TASK)
        assert not it.opencode.runs
