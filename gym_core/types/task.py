"""A task: one question with its answer key."""

import hashlib

import msgspec
from pydantic import BaseModel, ConfigDict

from gym_core.types.ids import TaskId
from gym_core.types.responses import ResponsesBody
from gym_core.types.wire import JsonObject, Wire


class TaskData(BaseModel):
    """Base of an environment's own fields of a row. Extras are kept: a dataset may carry more than a grader reads."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Task(Wire):
    id: TaskId
    responses_create_params: ResponsesBody
    """What the policy may see. The gold is never in here."""
    task_data: JsonObject
    """What only the grader may see."""

    def content_hash(self) -> str:
        """SHA-256 over the canonical JSON of prompt and key; the half of the resume key that follows the content.

        Images count by their reference, so hash a task only after its images were put into an assets folder.
        """
        canonical = msgspec.json.encode(
            [self.responses_create_params.model_dump(exclude_defaults=True), self.task_data], order="sorted"
        )
        return hashlib.sha256(canonical).hexdigest()
