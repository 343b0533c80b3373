"""A question about one image, and the task row that it becomes: the form shared by the visual benchmarks."""

from dataclasses import dataclass
from typing import Literal

from gym_core.capture.images import make_reference
from gym_core.datasets.images import PreparedImage
from gym_core.types.wire import JsonObject

ANSWER_SENTENCE = (
    "Work the question out step by step, then end your reply with the final answer, once, in the form \\boxed{answer}."
)


@dataclass(frozen=True)
class VisualQuestion:
    source_id: str
    """Stable id in the source; the task's id too."""
    taskset: str
    category: str
    subtype: str
    image: PreparedImage
    question: str
    ans_type: Literal["choice", "blank"]
    gold: str
    """For a choice question the letter of the right option. Reaches the grader only."""
    options: tuple[str, ...] = ()
    """Texts of a choice question, the first one being A."""
    answer_kind: str | None = None
    """How to compare the gold (a word of `gym_core.judging.matching.AnswerKind`); None when the source does not say."""

    def __post_init__(self) -> None:
        if bool(self.options) != (self.ans_type == "choice"):
            raise ValueError(f"{self.source_id}: {self.ans_type} question with {len(self.options)} options")


def to_task_row(question: VisualQuestion, *, instruction: str | None) -> JsonObject:
    """The flat row: what the policy may see under `responses_create_params`, what the grader needs beside it.

    `instruction` is put before the question; None (or blank) leaves image, question, choices and the sentence that
    asks for the box. The image is a reference into the dataset's assets folder.
    """
    image_url = make_reference(question.image.sha256)
    content = [
        {"type": "input_image", "image_url": image_url, "detail": "auto"},
        {"type": "input_text", "text": prompt_text(question, instruction=instruction)},
    ]
    return {
        "task_id": {"taskset": question.taskset, "task_id": question.source_id},
        "responses_create_params": {"input": [{"type": "message", "role": "user", "content": content}]},
        "question": asked_text(question),
        "expected_answer": question.gold,
        "source_id": question.source_id,
        "category": question.category,
        "l2_category": question.subtype,
        "ans_type": question.ans_type,
        "options": list(question.options),
        "answer_kind": question.answer_kind,
    }


def asked_text(question: VisualQuestion) -> str:
    """The question with its choices, one a line as `(A) text`: what policy and judge both read."""
    if not question.options:
        return question.question.strip()
    choices = [f"({chr(ord('A') + index)}) {option}" for index, option in enumerate(question.options)]
    return "\n".join([question.question.strip(), "Choices:", *choices])


def prompt_text(question: VisualQuestion, *, instruction: str | None) -> str:
    asked = f"{asked_text(question)}\n{ANSWER_SENTENCE}"
    lead = (instruction or "").strip()
    return f"{lead}\n\n---\n\n{asked}" if lead else asked
