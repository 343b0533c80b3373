"""What a judge's calls took is counted with the verdict, and with its absence."""

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gym_core.errors import JudgeError
from gym_core.http.client import HttpPool
from gym_core.judging.contract import GradingInput, JudgeFailed
from gym_core.judging.grader_prompt import ChatMessage
from gym_core.judging.llm_judge import ChatAnswer, LlmJudge
from gym_core.judging.matcher_judge import MatcherJudge
from gym_core.judging.model_server_endpoint import ROUTE, ModelServerEndpoint
from gym_core.types.cost import TokenCount
from gym_core.types.wire import JsonObject

GRADING = GradingInput(question="How many?", gold="4", answer="4")
VERDICT = '{"verdict": "equivalent", "confidence": 1, "reason": "same"}'
CALL = TokenCount(input=100, cached_input=20, output=7, calls=1)


class Chat:
    """Says its lines in order; an exception among them is raised."""

    def __init__(self, *lines: str | Exception) -> None:
        self._lines = list(lines)

    async def complete(self, messages: list[ChatMessage], *, max_tokens: int, temperature: float) -> ChatAnswer:
        line = self._lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return ChatAnswer(line, usage=CALL)


async def no_pause(_: float) -> None:
    return None


async def test_calls_that_were_asked_twice_count_twice_and_failed_ones_not() -> None:
    judge = LlmJudge(Chat(JudgeError("busy"), "I like turtles", VERDICT), sleep=no_pause)
    verdict = await judge.grade(GRADING)
    assert verdict.usage == TokenCount(input=200, cached_input=40, output=14, calls=2)


async def test_a_judge_without_a_verdict_has_cost_something_all_the_same() -> None:
    with pytest.raises(JudgeFailed) as failed:
        await LlmJudge(Chat("I like turtles", "still")).grade(GRADING)
    assert failed.value.details["judge_usage"] == (CALL + CALL).model_dump()


async def test_a_rule_takes_no_tokens() -> None:
    assert (await MatcherJudge().grade(GRADING)).usage is None


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (None, TokenCount(calls=1, uncounted_calls=1)),
        ({"prompt_tokens": 9, "completion_tokens": 2}, TokenCount(input=9, output=2, calls=1)),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}},
            TokenCount(input=9, cached_input=8, output=2, calls=1),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": None}},
            TokenCount(input=9, output=2, calls=1),
        ),
    ],
)
async def test_an_endpoints_count_is_read_and_its_silence_is_no_zero(
    usage: JsonObject | None, counted: TokenCount
) -> None:
    completion = {"choices": [{"message": {"content": VERDICT}}], "model": "j", "usage": usage}

    async def reply(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(completion), content_type="application/json")

    app = web.Application()
    app.router.add_post(ROUTE, reply)
    async with TestServer(app) as server, HttpPool() as pool:
        endpoint = ModelServerEndpoint(pool.service(str(server.make_url("")), "t"), model="judge", timeout_s=5)
        answer = await endpoint.complete([], max_tokens=5, temperature=0)
    assert answer.usage == counted
