"""From a trajectory to a verification: the last box of the newest message, compared with the gold. Knows no server."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from gym_core.errors import FailureKind
from gym_core.judging.answers import AnswerForm, extract_answer
from gym_core.judging.matching import match
from gym_core.judging.math_value import same_value
from gym_core.statistics.regions import Region, parts_of_image, score_looks
from gym_core.types.responses import OutputMessage, ResponsesReply
from gym_core.types.task import TaskData
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import JsonObject
from resources_servers.geo3k_zoom.zoom import zoomed_regions

CORRECTNESS = "correctness"


class Geo3kTask(TaskData):
    """What the grader reads of a row."""

    expected_answer: Annotated[str, StringConstraints(min_length=1)]
    """A value; or the letter of the right option, where there are options."""
    options: tuple[str, ...] = Field(default=(), max_length=26)
    """Values to choose from, the first one being A."""
    roi: tuple[Annotated[tuple[float, ...], Field(min_length=4, max_length=4)], ...] = Field(default=(), max_length=100)
    """Boxes that hold the evidence, as fractions: x0, y0, x1, y1. For columns alone."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not all(_squeezed(text) for text in (self.expected_answer, *self.options)):
            raise ValueError("expected_answer or an option is blank")
        letters = [chr(ord("A") + index) for index in range(len(self.options))]
        if letters and self.letter not in letters:
            gold = self.expected_answer[:80]
            raise ValueError(f"expected_answer {gold!r} is no letter of {len(letters)} options, which are named A on")
        self.evidence()
        return self

    @property
    def letter(self) -> str:
        """Of the right option, where there are options."""
        return self.expected_answer.strip().upper()

    def evidence(self) -> list[Region]:
        return parts_of_image(self.roi)


def grade(task: Geo3kTask, response: ResponsesReply) -> Verification:
    columns = answer_columns(task, response)
    correctness = float(columns["matched_by"] is not None)
    failure = None
    if columns["extracted_answer"] is None:
        reason = "the newest message holds no \\boxed{} answer"
        failure = Failure(kind=FailureKind.NO_FINAL_ANSWER, reason=reason, stage="verify")
    return Verification(
        reward=correctness, reward_components={CORRECTNESS: correctness}, failure=failure, details=columns
    )


def answer_columns(task: Geo3kTask, response: ResponsesReply) -> JsonObject:
    answer = boxed_answer(response)
    regions = zoomed_regions(response)
    looks = score_looks(regions, task.evidence())
    return {
        "extracted_answer": answer,
        "matched_by": None if answer is None else matched_by(task, answer),
        "zoom_regions": [[region.x0, region.y0, region.x1, region.y1] for region in regions],
        "zoom_calls": looks.calls,
        "zoom_duplicates": looks.duplicates,
        "roi_recall": looks.recall,
        "roi_iou": looks.best_iou,
    }


def boxed_answer(response: ResponsesReply) -> str | None:
    """Content of the last `\\boxed{}` of the newest assistant message that has text."""
    texts = [item.text for item in response.output if isinstance(item, OutputMessage) and item.text.strip()]
    found = extract_answer(texts[-1]) if texts else None
    return found.answer if found and found.form is AnswerForm.BOXED else None


def matched_by(task: Geo3kTask, answer: str) -> str | None:
    """How the answer equals the gold: as "text", as a "value", or by its "letter"; None when it does not."""
    if not task.options:
        return _same(task.expected_answer, answer)
    if match(task.expected_answer, answer, "letter", task.options).equal:
        return "letter"
    return _same(task.options[ord(task.letter) - ord("A")], answer)


def _same(gold: str, answer: str) -> str | None:
    if _squeezed(gold) == _squeezed(answer):
        return "text"
    return "value" if same_value(gold, answer) else None


def _squeezed(text: str) -> str:
    """As the published environment compares: no white space, commas or dollar signs, no case."""
    return "".join(text.split()).replace(",", "").replace("$", "").casefold()
