"""What the judge is told, and the look at it before a run, over the server's own routes."""

import json

import pytest
from aiohttp import web

from gym_core.judging.grader_prompt import SYSTEM
from gym_core.types.checkup import JudgeReport
from resources_servers.visual_coding_opencode.app import VisualCodingConfig
from tests.unit.visual_coding.test_app import JUDGE, JudgeServer, verifying


class Listening(JudgeServer):
    """Says what it is told, and remembers the instructions."""

    def __init__(self, says: str, status: int = 200) -> None:
        super().__init__(says, status)
        self.told: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.told.append((await request.json())["messages"][0]["content"])
        return await super().answer(request)


VERDICT = json.dumps({"verdict": "equivalent", "confidence": 1, "reason": "the same"})


@pytest.mark.parametrize(
    ("given", "told"), [(None, SYSTEM), ("Be kind; reply with that JSON.", "Be kind; reply with that JSON.")]
)
async def test_the_judge_is_told_its_own_instructions_or_the_default(given: str | None, told: str) -> None:
    judge = Listening(VERDICT)
    async with verifying(VisualCodingConfig(judge_model_server=JUDGE, judge_instructions=given), judge) as http:
        await http.post("/check_grader")
    assert set(judge.told) == {told}


async def test_a_look_at_the_grader_asks_its_judge_twice_and_reports_what_it_said() -> None:
    judge = Listening(VERDICT)
    async with verifying(VisualCodingConfig(judge_model_server=JUDGE), judge) as http:
        report = JudgeReport.model_validate_json((await http.post("/check_grader")).content)
    assert (report.judge, report.right, report.wrong, judge.calls) == ("m", "equivalent", "equivalent", 2)


async def test_a_judge_without_a_key_is_reported_and_not_raised() -> None:
    async with verifying(VisualCodingConfig(judge_model_server=JUDGE), Listening("no", status=401)) as http:
        report = JudgeReport.model_validate_json((await http.post("/check_grader")).content)
    assert "HTTP 401" in (report.failure or "")


async def test_the_matcher_needs_no_server_to_be_looked_at() -> None:
    async with verifying(VisualCodingConfig(judge="matcher"), Listening("unused")) as http:
        report = JudgeReport.model_validate_json((await http.post("/check_grader")).content)
    assert (report.right, report.wrong) == ("equivalent", "different")
