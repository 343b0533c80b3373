"""Echo: the reply must contain the task's phrase. The smallest environment, and the one to copy."""

from gym_core.servers.resources import ResourcesServer, ResourcesServerConfig, Submission
from gym_core.types.task import TaskData
from gym_core.types.verification import Verification


class EchoTask(TaskData):
    phrase: str
    """The text the reply must contain, compared without case."""


class EchoServer(ResourcesServer[EchoTask, ResourcesServerConfig]):
    task_type = EchoTask

    async def verify(self, submission: Submission[EchoTask]) -> Verification:
        said = submission.task.phrase.casefold() in submission.text.casefold()
        return Verification(reward=float(said))
