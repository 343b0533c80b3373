"""An endpoint that repeats the key it was given: nobody behind the model server sees it, in any answer or record."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from gym_core.config.schema import ServerRef
from gym_core.errors import FailureKind
from gym_core.judging.contract import GradingInput
from gym_core.judging.llm_judge import LlmJudge
from gym_core.judging.model_server_endpoint import ModelServerEndpoint
from gym_core.servers.resources import Submission
from gym_core.types.model_call import EndpointReport
from gym_core.types.rollout import Completed, Failed
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.echo.app import EchoServer, EchoTask
from tests.fakes.gym import in_process_gym
from tests.fakes.model import Fault, ScriptedEndpoint
from tests.fakes.proxy import RUN_TOKEN, USER_TOKEN, Proxy, chat, openai_proxy, vllm_proxy

KEY = 'sk-qzxq/+"wvkw"&9'
"""With what JSON, HTML and URLs escape."""
GATEWAY_KEY = "gw-jjqj-xvzk"
PARTS = ("qzxq", "wvkw", "jjqj", "xvzk")
"""Of the two keys: whatever the escaping, none may be seen. Letters, since records hold numbers by chance."""
FAULTS = [
    Fault.UNAUTHORIZED, Fault.BAD_REQUEST, Fault.SERVER_ERROR, Fault.RATE_LIMITED, Fault.HTML, Fault.ERROR_EVENT,
]  # fmt: skip
ECHOES = ("Authorization", "X-Gateway-Key")
IMPATIENT: JsonObject = {"retry": {"max_attempts": 2}, "context_tokens": 4096, "max_output_tokens": 512}

MakeProxy = Callable[[ScriptedEndpoint, Path], AbstractAsyncContextManager[Proxy]]


def before_vllm(endpoint: ScriptedEndpoint, folder: Path) -> AbstractAsyncContextManager[Proxy]:
    return vllm_proxy(endpoint, folder, api_key=KEY, **IMPATIENT)


def before_openai(endpoint: ScriptedEndpoint, folder: Path) -> AbstractAsyncContextManager[Proxy]:
    headers = {"X-Gateway-Key": GATEWAY_KEY}
    return openai_proxy(endpoint, folder, openai_api_key=KEY, openai_default_headers=headers, **IMPATIENT)


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint(echoes=ECHOES) as endpoint:
        yield endpoint


@pytest.fixture(params=[before_vllm, before_openai])
async def proxy(request: pytest.FixtureRequest, endpoint: ScriptedEndpoint, tmp_path: Path) -> AsyncIterator[Proxy]:
    make: MakeProxy = request.param
    async with make(endpoint, tmp_path) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _all_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gym_core")


def assert_secret(*texts: str | bytes) -> None:
    for text in texts:
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        assert not [part for part in PARTS if part in shown], shown


def assert_kept_secret(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By every file under the folder and every log record, its fields and traceback included."""
    assert_secret(*(path.read_bytes() for path in folder.rglob("*") if path.is_file()))
    formatter = logging.Formatter()
    assert_secret(*(f"{formatter.format(record)} {vars(record)}" for record in caplog.records))


def assert_masked(reply: httpx.Response) -> None:
    """The reply repeats the endpoint's complaint, without the key."""
    assert "****" in reply.text
    assert_secret(reply.content, str(reply.headers))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_session_and_its_capture_never_hold_an_echoed_key(
    endpoint: ScriptedEndpoint, proxy: Proxy, fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = await proxy.open_session()
    endpoint.fail_always(fault)
    responses: JsonObject = {"model": "policy", "input": "hello"}
    replies = [await proxy.send("POST", "/v1/responses", session.key, responses)]
    replies += [await session.chat(chat()), await session.chat(chat(stream=False))]
    assert [reply.is_error for reply in replies] == [True] * 3
    assert_secret(*(reply.content for reply in replies))
    summary = await session.close()
    assert_secret(summary.model_dump_json())
    if fault is not Fault.HTML:  # what is no completion at all is not quoted
        assert "****" in (summary.last_failure_message or "")
        assert ["****" in (call.failure_message or "") for call in session.calls()] == [True] * 3
    assert KEY in endpoint.requests[-1].headers["Authorization"]
    assert_kept_secret(tmp_path, caplog)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_relayed_error_is_told_without_the_key(
    endpoint: ScriptedEndpoint,
    proxy: Proxy,
    fault: Fault,
    stream: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint.fail_always(fault)
    reply = await proxy.send("POST", "/v1/chat/completions", USER_TOKEN, chat(stream=stream))
    if fault is Fault.ERROR_EVENT and not stream:  # only streams have events: this one is answered
        assert reply.json()["choices"][0]["message"]["content"] == "ok"
        return
    assert_masked(reply)
    if fault is not Fault.ERROR_EVENT:
        answered = await proxy.send("POST", "/v1/responses", RUN_TOKEN, {"model": "policy", "input": "hello"})
        assert answered.is_error
        assert_secret(answered.content)
    assert_kept_secret(tmp_path, caplog)


async def test_a_full_context_and_an_unknown_field_are_understood_and_told_without_the_key(
    proxy: Proxy, endpoint: ScriptedEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.context_tokens, endpoint.refuses = 100, frozenset({"return_token_ids"})
    session = await proxy.open_session()
    for texts, code in ((("x" * 3000,), "model_unavailable"), ((), None), (("x" * 3000,), "context_length_exceeded")):
        reply = await session.chat(chat(*texts))
        if code is not None:
            assert reply.json()["error"]["code"] == code
    assert_masked(reply)
    assert_kept_secret(tmp_path, caplog)


@pytest.mark.parametrize("fault", [Fault.UNAUTHORIZED, Fault.BAD_REQUEST, Fault.SERVER_ERROR, Fault.HTML])
async def test_a_check_reports_what_the_endpoint_says_without_the_key(
    endpoint: ScriptedEndpoint, proxy: Proxy, fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.fail_always(fault)
    reply = await proxy.as_run("POST", "/v1/check")
    report = EndpointReport.model_validate_json(reply.content)
    assert not report.ok
    assert "****" in report.message
    assert_masked(reply)
    assert_kept_secret(tmp_path, caplog)


async def test_an_answer_stays_as_the_model_wrote_it(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    said = f'the "error": {{"message": "Bearer x"}} of {GATEWAY_KEY}'
    endpoint.rule = lambda _: said
    session = await proxy.open_session()
    for token in (session.key, USER_TOKEN):
        reply = await proxy.send("POST", "/v1/chat/completions", token, chat(stream=False))
        assert reply.json()["choices"][0]["message"]["content"] == said
        streamed = await proxy.send("POST", "/v1/chat/completions", token, chat())
        assert "****" not in streamed.text


class JudgedEcho(EchoServer):
    """Asks a judge of the policy's own server, so that one endpoint is both."""

    async def verify(self, submission: Submission[EchoTask]) -> Verification:
        client = self.context.peer(ServerRef.model_validate({"type": "model_servers", "name": "policy_model"}))

        async def no_pause(_: float) -> None:
            return None

        judge = LlmJudge(ModelServerEndpoint(client, model="judge", timeout_s=5), sleep=no_pause)
        grading = GradingInput(question="q", gold="g", answer=submission.text, text=submission.text)
        return Verification(reward=1.0, details={"judge": (await judge.grade(grading)).reason})


@pytest.mark.parametrize("fault", [Fault.UNAUTHORIZED, Fault.BAD_REQUEST, Fault.SERVER_ERROR, Fault.HTML])
async def test_a_row_that_the_judge_masked_does_not_hold_its_key(
    fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_process_gym(tmp_path, resources_type=JudgedEcho, policy={"api_key": KEY}) as gym:
        gym.endpoint.echoes = ECHOES
        gym.endpoint.fail(Fault.NONE, *[fault] * 20)
        result = await gym.play()
    assert isinstance(result, Completed)
    assert result.verification.failure is not None
    assert result.verification.failure.kind is FailureKind.JUDGE_FAILED
    assert "****" in result.verification.failure.reason
    assert_secret(result.model_dump_json())
    assert_kept_secret(tmp_path, caplog)


@pytest.mark.parametrize("fault", [Fault.UNAUTHORIZED, Fault.BAD_REQUEST, Fault.SERVER_ERROR])
async def test_a_row_that_the_policy_masked_does_not_hold_its_key(
    fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_process_gym(tmp_path, policy={"api_key": KEY}) as gym:
        gym.endpoint.echoes = ECHOES
        gym.endpoint.fail_always(fault)
        result = await gym.play()
    assert isinstance(result, Failed)
    assert "****" in result.model_dump_json()
    assert_secret(result.model_dump_json())
    assert_kept_secret(tmp_path, caplog)
