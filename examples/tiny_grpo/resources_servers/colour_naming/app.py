"""Colour naming: the boxed word must be the colour of the picture."""

from gym_core.judging.answers import AnswerForm, extract_answer
from gym_core.servers.resources import ResourcesServer, ResourcesServerConfig, Submission
from gym_core.types.task import TaskData
from gym_core.types.verification import Verification


class ColourTask(TaskData):
    colour: str
    """Of the picture, in lower case."""


class ColourNaming(ResourcesServer[ColourTask, ResourcesServerConfig]):
    task_type = ColourTask

    async def verify(self, submission: Submission[ColourTask]) -> Verification:
        said = extract_answer(submission.text)
        named = said.answer.strip() if said.answer and said.form is AnswerForm.BOXED else None
        return Verification(reward=float(named == submission.task.colour), details={"colour_named": named})
