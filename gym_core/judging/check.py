"""A judge tried on two answers that leave no doubt, before it is trusted with a thousand."""

import asyncio

from gym_core.errors import EpisodeError
from gym_core.judging.contract import GradingInput, Judge, Verdict, VerdictLabel
from gym_core.judging.matching import AnswerKind
from gym_core.types.checkup import CheckState, Finding, JudgeReport

_QUESTION = "How many red discs are in the picture? Answer with a number."
RIGHT = GradingInput(
    question=_QUESTION, gold="7", answer="seven", text="I count seven. \\boxed{seven}", answer_kind=AnswerKind.INT
)
"""In other words than the gold: a judge that compares texts is not enough."""
WRONG = GradingInput(
    question=_QUESTION, gold="7", answer="12", text="I count twelve. \\boxed{12}", answer_kind=AnswerKind.INT
)
_NOT_ASKED = "no judge"


async def check_judge(judge: Judge) -> JudgeReport:
    """Both at once, with the judge's own retries. Never raises for what a judge does."""
    name = type(judge).__name__
    results = await asyncio.gather(judge.grade(RIGHT), judge.grade(WRONG), return_exceptions=True)
    verdicts: list[Verdict] = []
    for result in results:
        if isinstance(result, EpisodeError):
            return JudgeReport(judge=name, failure=str(result)[:1000])
        if isinstance(result, BaseException):
            raise result
        verdicts.append(result)
    right, wrong = verdicts
    return JudgeReport(judge=right.model or name, right=right.label.value, wrong=wrong.label.value)


def judge_finding(report: JudgeReport, *, server: str) -> Finding:
    """`server` names the resources server that asked."""
    tried = "a right answer and a wrong one graded"

    def finding(state: CheckState, found: str, advice: str = "") -> Finding:
        return Finding(check="judge", state=state, tried=tried, on=server, found=found, advice=advice)

    if report.judge is None:
        return finding(CheckState.OK, _NOT_ASKED)
    if report.failure is not None:
        return finding(
            CheckState.FAIL,
            report.failure,
            "look at the judge's address, model and key (docs/config.md); every answer would be masked",
        )
    said = f"{report.judge}: right {report.right}, wrong {report.wrong}"
    if report.right != VerdictLabel.EQUIVALENT or report.wrong == VerdictLabel.EQUIVALENT:
        return finding(CheckState.FAIL, said, "this judge errs where there is no doubt: choose another model")
    return finding(CheckState.OK, said)
