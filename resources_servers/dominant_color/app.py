"""Dominant colour: pictures come one by one, by a tool; the most frequent colour of each is to be recalled in order."""

import re
from typing import Any

from pydantic import Field, field_validator

from gym_core.capture.images import parse_data_url
from gym_core.errors import FailureKind
from gym_core.judging.answers import extract_answer
from gym_core.judging.plain_text import plain_text
from gym_core.servers.resources import Submission
from gym_core.servers.tools import (
    Tool,
    ToolArguments,
    ToolError,
    ToolOutput,
    ToolResourcesServer,
    ToolResourcesServerConfig,
    ToolSession,
)
from gym_core.types.task import TaskData
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import JsonObject

_BETWEEN_WORDS = re.compile(r"[\W_]+|\band\b")
"""Commas, arrows, slashes, brackets, quotation marks. A word that is no colour stays, and makes the answer wrong."""


class DominantColorTask(TaskData):
    expected_answer: str = Field(max_length=1000)
    """The colours in the order of the pictures, "red, blue, green"."""
    later_images: list[str]
    """`data:` URLs of the pictures after the one in the prompt."""

    @field_validator("expected_answer")
    @classmethod
    def _names_colors(cls, answer: str) -> str:
        if not _colors(answer):
            raise ValueError(f"{answer[:80]!r} names no colour")
        return answer


class NoArguments(ToolArguments):
    pass


class DominantColorServer(ToolResourcesServer[DominantColorTask, ToolResourcesServerConfig]):
    task_type = DominantColorTask
    measured_columns = ("colors_in_place", "images_seen")

    def list_tools(self, task: DominantColorTask) -> list[Tool[Any]]:
        return [Tool("see_next_image", "Shows the next picture.", NoArguments, see_next_image)]

    async def verify(self, submission: Submission[DominantColorTask]) -> Verification:
        answer = extract_answer(submission.text).answer
        said, right = _colors(answer or ""), _colors(submission.task.expected_answer)
        columns: JsonObject = {
            "extracted_answer": answer,
            "colors_in_place": sum(a == b for a, b in zip(said, right, strict=False)),
            "images_seen": sum(1 for _ in submission.response.images()),
        }
        if answer is None:
            failure = Failure(kind=FailureKind.NO_FINAL_ANSWER, reason="the final text holds no answer", stage="verify")
            return Verification.failed(failure, columns)
        return Verification(reward=float(said == right), details=columns)


def see_next_image(session: ToolSession[DominantColorTask], _: NoArguments) -> ToolOutput:
    # Nothing else is put on this shelf, so it knows how far the model has come.
    n_shown, later = len(session.shelf), session.task.later_images
    if n_shown == len(later):
        raise ToolError("there is no picture left: answer now")
    return ToolOutput([f"Picture {n_shown + 2} of {len(later) + 1}.", parse_data_url(later[n_shown])])


def _colors(answer: str) -> list[str]:
    return [word for word in _BETWEEN_WORDS.split(plain_text(answer)) if word]
