"""Scoring as promised: 1.0 for `equivalent` alone, 0 without a judge for no answer, a mask for a judge's failure."""

import pytest
from pydantic import ValidationError

from gym_core.errors import FailureKind
from gym_core.judging.contract import GradingInput, JudgeFailed, Verdict, VerdictLabel
from gym_core.judging.matcher_judge import MatcherJudge
from resources_servers.visual_coding_opencode.grading import Attempt, VisualCodingTask, answer_columns, grade_attempt

TASK = VisualCodingTask(question="Where is it?", expected_answer="(4,7)")


class FixedJudge:
    def __init__(self, label: VerdictLabel | None) -> None:
        self.label = label
        self.asked: list[GradingInput] = []

    async def grade(self, grading: GradingInput) -> Verdict:
        self.asked.append(grading)
        if self.label is None:
            raise JudgeFailed("nonsense", kind=FailureKind.JUDGE_UNPARSEABLE, details={"judge_raw_reply": "turtles"})
        return Verdict(label=self.label, reason="because", confidence=0.5, raw_reply="{}", model="m", attempts=1)


@pytest.mark.parametrize(
    ("label", "reward"),
    [(VerdictLabel.EQUIVALENT, 1.0), (VerdictLabel.DIFFERENT, 0.0), (VerdictLabel.UNSURE, 0.0)],
)
async def test_the_verdict_is_the_reward_and_the_matcher_only_a_column(label: VerdictLabel, reward: float) -> None:
    judge = FixedJudge(label)
    verification = await grade_attempt(Attempt(TASK, r"So \boxed{row 4, column 7}", "First. So."), judge)
    assert (verification.reward, verification.failure) == (reward, None)
    assert judge.asked == [
        GradingInput(question="Where is it?", gold="(4,7)", answer="row 4, column 7", text="First. So.")
    ]
    assert verification.details == {
        "extracted_answer": "row 4, column 7",
        "answer_form": "boxed",
        "string_match_reward": 0.0,
        "matcher_equal": True,
        "matcher_kind": "coord",
        "judge_verdict": label.value,
        "judge_reason": "because",
        "judge_confidence": 0.5,
        "judge_raw_reply": "{}",
        "judge_model": "m",
        "judge_prompt_sha256": None,
        "judge_attempts": 1,
        "judge_usage": None,
    }


@pytest.mark.parametrize("text", ["", "I give up.", r"\boxed{}"])
async def test_no_answer_scores_zero_and_the_judge_is_not_asked(text: str) -> None:
    judge = FixedJudge(VerdictLabel.EQUIVALENT)
    verification = await grade_attempt(Attempt(TASK, text, r"earlier: \boxed{(4,7)}"), judge)
    assert verification.reward == 0.0
    assert verification.failure is not None
    assert verification.failure.kind is FailureKind.NO_FINAL_ANSWER
    assert judge.asked == []
    assert verification.details["extracted_answer"] is None


async def test_a_judges_failure_leaves_with_all_that_is_known() -> None:
    with pytest.raises(JudgeFailed) as failed:
        await grade_attempt(Attempt(TASK, r"\boxed{(4,7)}"), FixedJudge(None))
    details = failed.value.details
    assert (details["judge_raw_reply"], details["judge_verdict"]) == ("turtles", None)
    assert (details["extracted_answer"], details["string_match_reward"], details["matcher_equal"]) == (
        "(4,7)",
        1.0,
        True,
    )


async def test_the_columns_are_the_same_whatever_happens() -> None:
    graded = await grade_attempt(Attempt(TASK, r"\boxed{(4,7)}"), MatcherJudge())
    unanswered = await grade_attempt(Attempt(TASK, ""), MatcherJudge())
    described = answer_columns(Attempt(TASK, "cut off"))
    assert list(graded.details) == list(unanswered.details) == list(described)
    assert graded.reward == 1.0


async def test_a_choice_may_be_answered_by_its_text() -> None:
    task = VisualCodingTask(question="?", expected_answer="B", options=("Left", "Right"))
    assert (await grade_attempt(Attempt(task, r"\boxed{\text{Right}}"), MatcherJudge())).reward == 1.0
    assert (await grade_attempt(Attempt(task, r"\boxed{A}"), MatcherJudge())).reward == 0.0


@pytest.mark.parametrize(
    "row",
    [
        {"question": "?"},
        {"question": "?", "expected_answer": ""},
        {"question": "?", "expected_answer": "1", "answer_kind": "colour"},
    ],
)
def test_a_row_that_cannot_be_graded_is_no_task(row: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        VisualCodingTask.model_validate(row)


def test_fields_that_the_grader_does_not_read_are_carried() -> None:
    task = VisualCodingTask.model_validate({"question": "?", "expected_answer": "1", "l2_category": "Maze"})
    assert task.model_extra == {"l2_category": "Maze"}
