"""A rollout from request to record: what the head asks of an episode, and the line that it leaves in the file."""

from typing import Annotated, Literal

from pydantic import Field

from gym_core.types.ids import EpisodeId, SafeId
from gym_core.types.responses import ResponsesReply
from gym_core.types.sample import SequenceSummary
from gym_core.types.session import AgentReport, CaptureSummary, SandboxEnforcement
from gym_core.types.task import Task
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import Wire

RECORD_SCHEMA_VERSION = 1


class RolloutKey(Wire):
    """Identity of a rollout within a run's file: which task by content, and which repeat of it."""

    task_hash: str
    repeat: int

    def __str__(self) -> str:
        return f"{self.task_hash}:{self.repeat}"


class RunRequest(Wire):
    """One rollout to do."""

    key: RolloutKey
    task_index: int
    """Position of the task in its dataset, for people and for NeMo's `_ng_task_index`."""
    task: Task
    environment: str
    """Name of the environment server instance."""
    rollout_id: SafeId
    first_attempt: int = 0
    """Attempts are numbered over all runs that resumed into one file."""


class EpisodeTiming(Wire):
    """Seconds."""

    total: float = 0.0
    seed: float = 0.0
    open: float = 0.0
    respond: float = 0.0
    verify: float = 0.0
    model: float = 0.0
    """Time in calls to the policy endpoint, a part of `respond`."""


class EpisodeEvidence(Wire):
    """What was seen of an episode, whatever became of it."""

    episode_id: EpisodeId
    response: ResponsesReply | None = None
    agent: AgentReport = AgentReport()
    capture: CaptureSummary | None = None
    sequences: SequenceSummary | None = None
    """None when the endpoint gave no token ids."""
    sandbox: SandboxEnforcement | None = None
    timing: EpisodeTiming = EpisodeTiming()


class Completed(Wire):
    """The episode ran to a verification: a grade, or a failure of the model that scores 0."""

    status: Literal["completed"] = "completed"
    evidence: EpisodeEvidence
    verification: Verification


class Failed(Wire):
    """The episode broke by a fault that is not the model's."""

    status: Literal["failed"] = "failed"
    evidence: EpisodeEvidence
    failure: Failure


EpisodeResult = Annotated[Completed | Failed, Field(discriminator="status")]


class RolloutRecord(Wire):
    """One line of the output file: a finished rollout, with every image as a reference into the assets folder."""

    schema_version: int = RECORD_SCHEMA_VERSION
    key: RolloutKey
    run_hash: str
    """Hash of what ran (configuration, versions, image); half of what a resume compares."""
    task_index: int
    environment: str
    task: Task
    evidence: EpisodeEvidence
    verification: Verification
    attempts: int
    """Episodes it took, the last one included."""
    finished_at: float
    """Unix time, seconds."""
