"""The resources server of `visual_tools`: questions about an image, with native image tools that the config chooses."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from gym_core.errors import FailureKind
from gym_core.image_tools import Coordinates, chosen_tools
from gym_core.image_tools.places import Size
from gym_core.judging.answers import extract_answer
from gym_core.judging.matching import AnswerKind, match
from gym_core.servers.answered_calls import AnsweredCall, answered_calls
from gym_core.servers.image_looks import look_columns, looked_regions
from gym_core.servers.image_tools import session_image_tools
from gym_core.servers.resources import Submission
from gym_core.servers.tools import Tool, ToolResourcesServer, ToolResourcesServerConfig
from gym_core.statistics.regions import Region, parts_of_image, score_chain
from gym_core.types.task import TaskData
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import JsonObject


class VisualToolsConfig(ToolResourcesServerConfig):
    image_tools: tuple[str, ...] = Field(default=("zoom",), min_length=1)
    """Names of tools or of families of them (docs/image-tools.md), in the order in which a model is told of them."""
    coordinates: Coordinates = Coordinates.FRACTION
    """How places are written, by the model and by the tools."""

    @field_validator("image_tools")
    @classmethod
    def _are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        try:
            chosen_tools(names)
        except ImportError as error:
            raise ValueError(str(error)) from error
        return names


_Box = tuple[float, float, float, float]
_Side = Annotated[int, Field(gt=0)]


class VisualToolsTask(TaskData):
    """What the grader reads of a row: the fields of `visual_coding_opencode`, so that both play the same rows."""

    expected_answer: Annotated[str, StringConstraints(min_length=1)]
    options: tuple[str, ...] = ()
    """Texts of a choice question, the first one being A."""
    answer_kind: AnswerKind | None = None
    """None when the source does not say how to compare."""
    reference_chain: tuple[str, ...] | None = None
    """Names of the tools that solve it, in order; for columns alone."""
    roi: tuple[_Box, ...] | None = Field(default=None, max_length=1000)
    """Boxes on the first image that hold the evidence: x0, y0, x1, y1. For columns alone."""
    image_size: tuple[_Side, _Side] | None = None
    """Width and height of the first image. With it `roi` is in its pixels, without it in fractions of them."""

    @model_validator(mode="after")
    def _boxes_are_on_the_image(self) -> Self:
        self.evidence()
        return self

    def evidence(self) -> list[Region] | None:
        """`roi` in fractions; None where the row has none."""
        if self.roi is None:
            return None
        if self.image_size is None:
            return parts_of_image(self.roi)
        width, height = self.image_size
        return parts_of_image(self.roi, width=width, height=height)


class VisualToolsServer(ToolResourcesServer[VisualToolsTask, VisualToolsConfig]):
    config_type = VisualToolsConfig
    task_type = VisualToolsTask
    needs_images = True
    measured_columns = (
        "look_calls",
        "look_distinct",
        "look_duplicates",
        "roi_recall",
        "roi_iou",
        "distinct_tools",
        "chain_calls",
        "chain_distinct",
        "chain_duplicates",
        "chain_overlap",
        "chain_order",
        "chain_redundant",
    )

    def list_tools(self, task: VisualToolsTask) -> list[Tool[Any]]:
        return session_image_tools(self.config.image_tools, self.config.coordinates)

    async def verify(self, submission: Submission[VisualToolsTask]) -> Verification:
        task, columns = submission.task, self._columns(submission)
        answer = columns["extracted_answer"]
        if answer is None:
            failure = Failure(kind=FailureKind.NO_FINAL_ANSWER, reason="the final text holds no answer", stage="verify")
            return Verification.failed(failure, columns)
        found = match(task.expected_answer, answer, task.answer_kind, task.options)
        return Verification(reward=float(found.equal), details=columns | {"matcher_kind": found.kind.value})

    async def describe_failure(self, submission: Submission[VisualToolsTask]) -> JsonObject:
        return self._columns(submission)

    def _columns(self, submission: Submission[VisualToolsTask]) -> JsonObject:
        task, response = submission.task, submission.response
        size = Size(*task.image_size) if task.image_size else None
        regions = looked_regions(response.output, self.config.coordinates, image_size=size)
        return {
            "extracted_answer": extract_answer(submission.text).answer,
            "matcher_kind": None,
            **_chain_columns([call for call in answered_calls(response.output) if call.ran], task.reference_chain),
            **look_columns(regions, task.evidence()),
        }


def _chain_columns(calls: Sequence[AnsweredCall], reference: tuple[str, ...] | None) -> JsonObject:
    """Of calls that ran: how many others a model makes up, and how they are called, is its own affair."""
    chain = [answered.call.name for answered in calls]
    distinct = {(answered.call.name, json.dumps(answered.arguments(), sort_keys=True)) for answered in calls}
    columns: JsonObject = {
        "tool_chain": chain,
        "distinct_tools": len(set(chain)),
        "chain_calls": len(calls),
        "chain_distinct": len(distinct),
        "chain_duplicates": len(calls) - len(distinct),
    }
    if reference is None:
        return columns
    score = score_chain(chain, reference)
    return columns | {
        "chain_overlap": score.overlap,
        "chain_order": score.order,
        "chain_redundant": score.redundant,
    }
