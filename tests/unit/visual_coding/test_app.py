"""The server over its own routes, with a judge server that says what it is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr, ValidationError

from gym_core.config.schema import ServerRef
from gym_core.episode import VERIFY_TIMEOUT_S
from gym_core.errors import FailureKind
from gym_core.http.client import HttpPool
from gym_core.judging.llm_judge import RETRY_PAUSES_S
from gym_core.servers.context import Peer, ServerContext, ServerSlice
from gym_core.types.flat_row import VerifyRequest, verification_from_flat, verify_request_to_flat
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import OutputMessage, OutputText, ResponseError, ResponsesBody, ResponsesReply
from gym_core.types.task import Task
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.visual_coding_opencode.app import VisualCodingConfig, VisualCodingServer

FOLDER = Path(__file__).parents[3] / "resources_servers" / "visual_coding_opencode"
JUDGE = ServerRef(type="model_servers", name="judge_model")  # type: ignore[arg-type]  # the word is parsed
TASK = Task(
    id=TaskId(taskset="t", task_id="1"),
    responses_create_params=ResponsesBody(input="How many?"),
    task_data={"question": "How many?", "expected_answer": "3", "category": "Counting"},
)


class JudgeServer:
    """Chat completions that all say one thing."""

    def __init__(self, says: str, status: int = 200) -> None:
        self.says, self.status, self.calls = says, status, 0

    async def answer(self, request: web.Request) -> web.Response:
        self.calls += 1
        completion = {"model": "m", "choices": [{"message": {"content": self.says}}]}
        return web.json_response(completion, status=self.status)


@asynccontextmanager
async def verifying(config: VisualCodingConfig, judge: JudgeServer) -> AsyncIterator[httpx.AsyncClient]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", judge.answer)
    async with TestServer(app) as judge_server, HttpPool() as pool:
        token = SecretStr("run-token")
        server_slice = ServerSlice(
            name="visual_coding_opencode",
            type="resources_servers",
            implementation="visual_coding_opencode",
            block={},
            run_token=token,
            peers={"judge_model": Peer(url=str(judge_server.make_url("")), token=token)},
            state_dir="unused",
            url="http://resources",
        )
        server = VisualCodingServer(config, ServerContext(slice=server_slice, pool=pool))
        transport = httpx.ASGITransport(server.make_app())
        headers = {"Authorization": "Bearer run-token"}
        async with httpx.AsyncClient(transport=transport, base_url="http://resources", headers=headers) as client:
            yield client


async def verified(client: httpx.AsyncClient, text: str, error: ResponseError | None = None) -> Verification:
    """Seed a session, hand in `text`, read the row."""
    seed: JsonObject = {
        "resources_session_id": "s1",
        "episode_id": EpisodeId(rollout_id="r").model_dump(),
        "task_id": TASK.id.model_dump(),
        "task_data": TASK.task_data,
    }
    assert (await client.post("/seed_session", json=seed)).status_code == 200
    reply = ResponsesReply(
        id="r",
        created_at=0,
        status="incomplete" if error else "completed",
        output=[OutputMessage(id="m", content=[OutputText(text=text)])],
        error=error,
    )
    request = VerifyRequest(task=TASK, response=reply, resources_session_id="s1")
    row = (await client.post("/verify", json=verify_request_to_flat(request))).raise_for_status().json()
    assert row["category"] == "Counting"
    return verification_from_flat(row)


@pytest.mark.parametrize(("verdict", "reward"), [("equivalent", 1.0), ("different", 0.0), ("unsure", 0.0)])
async def test_the_judges_verdict_is_the_reward(verdict: str, reward: float) -> None:
    judge = JudgeServer(f'{{"verdict": "{verdict}"}}')
    async with verifying(VisualCodingConfig(judge_model_server=JUDGE), judge) as client:
        verification = await verified(client, r"\boxed{three}")
    assert (verification.reward, verification.failure) == (reward, None)
    assert verification.details["judge_verdict"] == verdict
    assert verification.details["matcher_equal"] is True
    assert judge.calls == 1


async def test_a_judge_that_replies_nonsense_masks_the_sample_and_its_words_are_kept() -> None:
    async with verifying(VisualCodingConfig(judge_model_server=JUDGE), JudgeServer("I like turtles")) as client:
        verification = await verified(client, r"\boxed{3}")
    assert verification.is_masked
    assert verification.failure is not None
    assert verification.failure.kind is FailureKind.JUDGE_UNPARSEABLE
    assert verification.details["judge_raw_reply"] == "I like turtles"
    assert verification.details["extracted_answer"] == "3"


async def test_a_judge_that_refuses_masks_the_sample() -> None:
    async with verifying(VisualCodingConfig(judge_model_server=JUDGE), JudgeServer("", status=401)) as client:
        verification = await verified(client, r"\boxed{3}")
    assert verification.is_masked
    assert verification.failure is not None
    assert verification.failure.kind is FailureKind.JUDGE_FAILED


@pytest.mark.parametrize(
    ("text", "error", "kind"),
    [
        ("I do not know.", None, FailureKind.NO_FINAL_ANSWER),
        (r"\boxed{3}", ResponseError(code="agent_timeout", message="1800 s"), FailureKind.AGENT_TIMEOUT),
    ],
)
async def test_no_answer_and_an_unfinished_run_score_zero_without_the_judge(
    text: str, error: ResponseError | None, kind: FailureKind
) -> None:
    judge = JudgeServer('{"verdict": "equivalent"}')
    async with verifying(VisualCodingConfig(judge_model_server=JUDGE), judge) as client:
        verification = await verified(client, text, error)
    assert verification.reward == 0.0
    assert verification.failure is not None
    assert verification.failure.kind is kind
    assert verification.details["matcher_equal"] is (error is not None)
    assert judge.calls == 0


async def test_the_matcher_needs_no_judge_server() -> None:
    judge = JudgeServer("", status=500)
    async with verifying(VisualCodingConfig(judge="matcher"), judge) as client:
        assert (await verified(client, r"\boxed{three}")).reward == 1.0
    assert judge.calls == 0


def test_a_model_judge_needs_its_server() -> None:
    with pytest.raises(ValidationError, match="judge: llm needs judge_model_server"):
        VisualCodingConfig()


def test_the_slowest_judge_that_is_allowed_ends_before_the_head_server_gives_up() -> None:
    slowest = VisualCodingConfig(judge="matcher", judge_timeout_s=290)
    calls, pauses_s = 2 * (1 + len(RETRY_PAUSES_S)), 2 * sum(RETRY_PAUSES_S)
    assert calls * slowest.judge_timeout_s + pauses_s < VERIFY_TIMEOUT_S
    with pytest.raises(ValidationError, match="judge_timeout_s"):
        VisualCodingConfig(judge="matcher", judge_timeout_s=291)


def test_the_shipped_block_is_the_promised_one() -> None:
    config = yaml.safe_load((FOLDER / "configs" / "visual_coding_opencode.yaml").read_text())
    block = config["visual_coding_opencode"]["resources_servers"]["visual_coding_opencode"]
    promised = {
        "sandbox_provider": "sandbox",
        "sandbox_config": {
            "image": "${oc.env:VISUAL_CODING_OPENCODE_SANDBOX_IMAGE,null}",
            "ttl_s": 7200,
            "resources": {"cpu": 2, "memory_mib": 8192},
        },
        "sandbox_workdir": "/workspace",
        "sandbox_network_access": "model_only",
        "sandbox_model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    assert promised.items() <= block.items()
    assert VisualCodingConfig.model_validate(block).judge == "llm"
