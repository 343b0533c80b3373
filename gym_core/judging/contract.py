"""What a judge is: an answer and its gold in, one verdict out. A judge that cannot decide raises; it never guesses."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gym_core.errors import FailureKind, JudgeError
from gym_core.types.cost import TokenCount
from gym_core.types.wire import JsonObject


@dataclass(frozen=True)
class GradingInput:
    """All that a judge may look at. No image: what the policy saw is not the judge's business."""

    question: str
    """With the choices, as the policy read it."""
    gold: str
    answer: str
    """As extracted from the final text."""
    text: str = ""
    """Everything the model said, in order; a judge reads the end of it."""
    answer_kind: str | None = None
    """A word of `AnswerKind`; None when the source does not say."""
    options: tuple[str, ...] = ()
    """Texts of a choice question, the first one being A."""


class VerdictLabel(StrEnum):
    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Verdict:
    label: VerdictLabel
    reason: str
    confidence: float | None = None
    """In [0, 1], as the judge put it; None when it gave none."""
    raw_reply: str | None = None
    """The whole reply that the verdict was read from; None for a judge that is no model."""
    model: str | None = None
    prompt_sha256: str | None = None
    """Of the messages that were sent, so that a verdict can be asked for again and compared."""
    attempts: int = 0
    """Calls made, failed ones included."""
    usage: TokenCount | None = None
    """Tokens of the calls that were answered, those without a verdict included; None for a judge that is no model."""


class JudgeFailed(JudgeError):
    """No verdict. What was seen of the judge goes into the row's columns."""

    def __init__(self, message: str, *, kind: FailureKind, details: JsonObject | None = None) -> None:
        super().__init__(message, kind=kind)
        self.details: JsonObject = details or {}


class Judge(Protocol):
    async def grade(self, grading: GradingInput) -> Verdict:
        """Raises JudgeFailed when there is no verdict to be had."""
        ...
