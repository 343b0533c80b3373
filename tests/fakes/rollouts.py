"""Small tasks, requests and episode results for tests of what happens around an episode."""

from gym_core.errors import FailureKind
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import InputMessage, OutputMessage, OutputText, ResponsesBody, ResponsesReply
from gym_core.types.rollout import Completed, EpisodeEvidence, Failed, RolloutRecord, RunRequest
from gym_core.types.task import Task
from gym_core.types.verification import Failure, Verification


def make_task(index: int, *, category: str = "") -> Task:
    return Task(
        id=TaskId(taskset="fake", task_id=str(index)),
        responses_create_params=ResponsesBody(input=[InputMessage(role="user", content=f"question {index}")]),
        task_data={"phrase": "x", "category": category},
    )


def make_reply(text: str = "an answer") -> ResponsesReply:
    message = OutputMessage(id="m", content=[OutputText(text=text)])
    return ResponsesReply(id="r", created_at=1.0, status="completed", output=[message])


def make_evidence(request: RunRequest, attempt: int = 0) -> EpisodeEvidence:
    episode_id = EpisodeId(rollout_id=request.rollout_id, attempt=attempt)
    return EpisodeEvidence(episode_id=episode_id, response=make_reply())


def completed(request: RunRequest, attempt: int = 0, *, reward: float = 1.0) -> Completed:
    return Completed(evidence=make_evidence(request, attempt), verification=Verification(reward=reward))


def failed(request: RunRequest, attempt: int = 0, *, kind: FailureKind = FailureKind.SANDBOX_LOST) -> Failed:
    failure = Failure(kind=kind, reason="it was the fake", stage="respond")
    return Failed(evidence=make_evidence(request, attempt), failure=failure)


def make_record(request: RunRequest, *, reward: float | None = 1.0, run_hash: str = "h") -> RolloutRecord:
    result = completed(request)
    verification = Verification(reward=reward) if reward is not None else Verification.failed(failed(request).failure)
    return RolloutRecord(
        key=request.key,
        run_hash=run_hash,
        task_index=request.task_index,
        environment=request.environment,
        task=request.task,
        evidence=result.evidence,
        verification=verification,
        attempts=1,
        finished_at=2.0,
    )
