"""From a model's final text to a verification: find the answer, compare it, ask the judge. Knows no server."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import StringConstraints

from gym_core.errors import FailureKind
from gym_core.judging.answers import Extracted, extract_answer
from gym_core.judging.contract import GradingInput, Judge, JudgeFailed, VerdictLabel
from gym_core.judging.matching import AnswerKind, match
from gym_core.judging.verdict_columns import NOT_JUDGED, verdict_columns
from gym_core.types.task import TaskData
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import JsonObject


class VisualCodingTask(TaskData):
    """What the grader reads of a row."""

    question: str
    """With the choices, as the policy read it."""
    expected_answer: Annotated[str, StringConstraints(min_length=1)]
    options: tuple[str, ...] = ()
    """Texts of a choice question, the first one being A."""
    answer_kind: AnswerKind | None = None
    """None when the source does not say how to compare."""


@dataclass(frozen=True)
class Attempt:
    """What the model said in reply to a task."""

    task: VisualCodingTask
    final_text: str
    """The message that ends the trajectory, where the answer is looked for; "" when there is none."""
    all_text: str = ""
    """Everything it said; the judge sees the end of it."""

    @property
    def extracted(self) -> Extracted:
        return extract_answer(self.final_text)


async def grade_attempt(attempt: Attempt, judge: Judge) -> Verification:
    """1.0 exactly when the verdict is `equivalent`. No answer scores 0 and the judge is not asked.

    Raises JudgeFailed, its details completed with the answer's columns, when there is no verdict.
    """
    columns = answer_columns(attempt)
    answer = attempt.extracted.answer
    if answer is None:
        failure = Failure(kind=FailureKind.NO_FINAL_ANSWER, reason="the final text holds no answer", stage="verify")
        return Verification.failed(failure, columns)
    task = attempt.task
    grading = GradingInput(
        question=task.question,
        gold=task.expected_answer,
        answer=answer,
        text=attempt.all_text or attempt.final_text,
        answer_kind=task.answer_kind,
        options=task.options,
    )
    try:
        verdict = await judge.grade(grading)
    except JudgeFailed as error:
        error.details = columns | error.details
        raise
    reward = 1.0 if verdict.label is VerdictLabel.EQUIVALENT else 0.0
    return Verification(reward=reward, details=columns | verdict_columns(verdict))


def answer_columns(attempt: Attempt) -> JsonObject:
    """Every column of a graded row, those of the judge empty. The matcher's are a diagnostic beside the verdict."""
    extracted, task = attempt.extracted, attempt.task
    found: JsonObject = {"extracted_answer": extracted.answer, "answer_form": extracted.form.value}
    if extracted.answer is None:
        return found | {"string_match_reward": 0.0, "matcher_equal": False, "matcher_kind": None} | NOT_JUDGED
    result = match(task.expected_answer, extracted.answer, task.answer_kind, task.options)
    same_string = extracted.answer.strip().casefold() == task.expected_answer.strip().casefold()
    compared = {
        "string_match_reward": float(same_string),
        "matcher_equal": result.equal,
        "matcher_kind": result.kind.value,
    }
    return found | compared | NOT_JUDGED
