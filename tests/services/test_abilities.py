"""What a model and a judge are seen to be able to do, through their servers, and what a doctor makes of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym_core.errors import FailureKind
from gym_core.judging.check import check_judge, judge_finding
from gym_core.judging.contract import GradingInput, JudgeFailed, Verdict, VerdictLabel
from gym_core.judging.matcher_judge import MatcherJudge
from gym_core.launch.policy_check import endpoint_findings
from gym_core.types.checkup import AbilityReport, CheckState
from gym_core.types.model_call import EndpointReport
from gym_core.types.wire import JsonObject
from tests.fakes.model import Calls, Fault, Says, ScriptedEndpoint
from tests.fakes.proxy import Proxy, vllm_proxy


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint() as endpoint:
        yield endpoint


async def abilities(proxy: Proxy) -> AbilityReport:
    return AbilityReport.model_validate_json((await proxy.as_run("POST", "/v1/check_abilities")).content)


class Seer:
    """Names the second picture's colour right only if it is not colour-blind: it tells the pictures by their bytes."""

    def __init__(self, *, is_blind: bool = False, uses_tools: bool = True) -> None:
        self._is_blind = is_blind
        self._uses_tools = uses_tools
        self._seen: list[str] = []

    def __call__(self, messages: list[JsonObject]) -> Says | str:
        content = messages[-1]["content"]
        if isinstance(content, str):
            return Says("", (Calls("note_number", '{"number": 7}'),)) if self._uses_tools else "seven"
        url = content[1]["image_url"]["url"]
        if self._is_blind:
            return "It is red."
        return "<think>Not blue?</think> Red" if url == RED_URL else "BLUE."


def _red_url() -> str:
    from gym_core.servers.model.probe_abilities import RGB
    from gym_core.servers.model.probe_prompts import SMALL_PX, coloured_picture_part

    return str(coloured_picture_part(SMALL_PX, RGB["red"])["image_url"]["url"])


RED_URL = _red_url()


async def test_a_model_that_sees_and_calls_tools_is_told(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    endpoint.rule = Seer()
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        report = await abilities(proxy)
    assert (report.tells_colours, report.called_tool, report.refusal, report.message) == (True, True, None, "")
    assert [answer.shown for answer in report.colours] == ["red", "blue"]


async def test_a_model_that_is_blind_and_calls_nothing_is_told(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    endpoint.rule = Seer(is_blind=True, uses_tools=False)
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        report = await abilities(proxy)
    assert (report.tells_colours, report.called_tool, report.refusal) == (False, False, None)
    assert [answer.said for answer in report.colours] == ["It is red."] * 2


async def test_an_endpoint_that_fails_is_quoted_and_never_raises(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    endpoint.fail_always(Fault.SERVER_ERROR)
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        report = await abilities(proxy)
    assert report.message.startswith("HTTP 500")
    assert (report.refusal or "").startswith("HTTP 500")


# -- the look, in lines -------------------------------------------------------

GOOD = EndpointReport(
    ok=True, answers=True, accepts_images=True, gives_logprobs=True, gives_token_ids=True, message="", model="m"
)


@pytest.mark.parametrize(
    ("changes", "needs_images", "states"),
    [
        ({}, True, {"endpoint": "ok", "images": "ok", "template": "ok", "tokens": "ok"}),
        ({"gives_token_ids": False}, True, {"endpoint": "ok", "images": "ok", "template": "ok", "tokens": "warn"}),
        ({"answers": False, "message": "http://x: HTTP 401: no"}, True, {"endpoint": "fail"}),
        ({"accepts_images": False, "message": "no"}, True, {"images": "fail"}),
        ({"accepts_images": False, "message": "no"}, False, {"images": "warn"}),
        ({"message": "refuses a second one"}, True, {"images": "warn"}),
        ({"leaks_list_content": True, "message": "leak"}, False, {"template": "fail", "images": "ok"}),
        ({"leaks_list_content": True, "allows_leak": True, "message": "leak"}, False, {"template": "warn"}),
    ],
)
def test_each_finding_of_a_look_has_its_state(
    changes: dict[str, object], needs_images: bool, states: dict[str, str]
) -> None:
    found = endpoint_findings(GOOD.model_copy(update=changes), needs_images=needs_images)
    assert states.items() <= {finding.check: finding.state.value for finding in found}.items()


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("http://x: HTTP 401: no", "++policy_api_key"),
        ("http://x: HTTP 404: no", "end in /v1"),
        ("http://x: HTTP 0: refused", "nothing answers there"),
        ("http://x: HTTP 500: broken", "the endpoint's own log"),
    ],
)
def test_what_an_endpoint_says_instead_of_answering_becomes_advice(message: str, advice: str) -> None:
    (finding,) = endpoint_findings(GOOD.model_copy(update={"answers": False, "message": message}), needs_images=True)
    assert advice in finding.advice


# -- judges -------------------------------------------------------------------


class Fixed:
    def __init__(self, right: VerdictLabel | None, wrong: VerdictLabel = VerdictLabel.DIFFERENT) -> None:
        self._right, self._wrong = right, wrong

    async def grade(self, grading: GradingInput) -> Verdict:
        if self._right is None:
            raise JudgeFailed("judge http://j: HTTP 401", kind=FailureKind.JUDGE_FAILED)
        return Verdict(label=self._right if grading.answer == "seven" else self._wrong, reason="")


@pytest.mark.parametrize(
    ("judge", "state"),
    [
        (MatcherJudge(), CheckState.OK),
        (Fixed(VerdictLabel.EQUIVALENT), CheckState.OK),
        (Fixed(VerdictLabel.EQUIVALENT, VerdictLabel.EQUIVALENT), CheckState.FAIL),
        (Fixed(VerdictLabel.DIFFERENT), CheckState.FAIL),
        (Fixed(None), CheckState.FAIL),
    ],
)
async def test_a_judge_is_tried_on_answers_that_leave_no_doubt(judge: MatcherJudge | Fixed, state: CheckState) -> None:
    finding = judge_finding(await check_judge(judge), server="grader")
    assert (finding.state, bool(finding.advice)) == (state, state is CheckState.FAIL)
