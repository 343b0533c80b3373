"""The resources server of `visual_tools`: questions about an image, with native image tools that the config chooses."""

from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from gym_core.errors import FailureKind
from gym_core.image_tools import Coordinates, chosen_tools
from gym_core.judging.answers import extract_answer
from gym_core.judging.matching import AnswerKind, match
from gym_core.servers.image_tools import session_image_tools
from gym_core.servers.resources import Submission
from gym_core.servers.tools import Tool, ToolResourcesServer, ToolResourcesServerConfig
from gym_core.statistics.regions import score_chain
from gym_core.types.responses import FunctionCall, ResponsesReply
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


class VisualToolsTask(TaskData):
    """What the grader reads of a row: the fields of `visual_coding_opencode`, so that both play the same rows."""

    expected_answer: Annotated[str, StringConstraints(min_length=1)]
    options: tuple[str, ...] = ()
    """Texts of a choice question, the first one being A."""
    answer_kind: AnswerKind | None = None
    """None when the source does not say how to compare."""
    reference_chain: tuple[str, ...] | None = None
    """Names of the tools that solve it, in order; for columns alone."""


class VisualToolsServer(ToolResourcesServer[VisualToolsTask, VisualToolsConfig]):
    config_type = VisualToolsConfig
    task_type = VisualToolsTask
    needs_images = True

    def list_tools(self, task: VisualToolsTask) -> list[Tool[Any]]:
        return session_image_tools(self.config.image_tools, self.config.coordinates)

    async def verify(self, submission: Submission[VisualToolsTask]) -> Verification:
        task, columns = submission.task, _columns(submission)
        answer = columns["extracted_answer"]
        if answer is None:
            failure = Failure(kind=FailureKind.NO_FINAL_ANSWER, reason="the final text holds no answer", stage="verify")
            return Verification.failed(failure, columns)
        found = match(task.expected_answer, answer, task.answer_kind, task.options)
        return Verification(reward=float(found.equal), details=columns | {"matcher_kind": found.kind.value})

    async def describe_failure(self, submission: Submission[VisualToolsTask]) -> JsonObject:
        return _columns(submission)


def _columns(submission: Submission[VisualToolsTask]) -> JsonObject:
    chain = _chain(submission.response)
    columns: JsonObject = {
        "extracted_answer": extract_answer(submission.text).answer,
        "tool_chain": chain,
        "distinct_tools": len(set(chain)),
        "matcher_kind": None,
    }
    if submission.task.reference_chain is None:
        return columns
    score = score_chain(chain, submission.task.reference_chain)
    return columns | {
        "chain_overlap": score.overlap,
        "chain_order": score.order,
        "chain_redundant": score.redundant,
    }


def _chain(response: ResponsesReply) -> list[str]:
    """Names of the calls, in order."""
    return [item.name for item in response.output if isinstance(item, FunctionCall)]
