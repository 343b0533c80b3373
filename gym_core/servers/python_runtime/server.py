"""The base of an environment whose model writes Python: one tool `python`, one living process per session.

    class CluesServer(PythonToolServer[CluesTask, PythonToolServerConfig]):
        def setup(self, session: PythonSession[CluesTask]) -> Setup:
            return Setup({"clue_0.png": session.shelf[0].content}, "from PIL import Image; ...")

The sandbox is the session's own (`sandbox_provider` in the server's block, no network); the agent is `tool_agent`, with
`dialect: code` for models that write code into their text.
"""

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from gym_core.datasets.images import PreparedImage
from gym_core.errors import SandboxUnavailable
from gym_core.servers.python_runtime.runtime import GRACE_S, START_LIMIT_S, PythonRuntime
from gym_core.servers.python_runtime.settings import Execution, RuntimeSettings, Setup
from gym_core.servers.python_runtime.written_code import TOOL_NAME
from gym_core.servers.resources import ResourcesSession, TaskT
from gym_core.servers.tools import (
    MAX_ARGUMENT_CHARS,
    Tool,
    ToolArguments,
    ToolOutput,
    ToolResourcesServer,
    ToolResourcesServerConfig,
    ToolSession,
)
from gym_core.types.session import SeedSessionRequest

_OWN_S = 5.0
"""Of a call, for what this process does itself: it looks at the pictures and puts them on the shelf."""


class PythonToolServerConfig(ToolResourcesServerConfig):
    python_runtime: RuntimeSettings = RuntimeSettings()
    tool_timeout_s: float = Field(default=180.0, gt=0)
    """Of one call, a process that is started first included; it must leave room for the runtime's own time-outs, so
    that code which takes its time never looks like a tool that broke."""

    beside_s: ClassVar[float] = 0.0
    """What a subclass's call may take beside its start and its code."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        least = START_LIMIT_S + self.python_runtime.timeout_s + GRACE_S + self.beside_s + _OWN_S
        if self.tool_timeout_s < least:
            raise ValueError(
                f"tool_timeout_s: {self.tool_timeout_s:g} is too short for python_runtime.timeout_s "
                f"{self.python_runtime.timeout_s:g}: at least {least:g}"
            )
        return self


PythonConfigT = TypeVar("PythonConfigT", bound=PythonToolServerConfig)


class CodeArguments(ToolArguments):
    code: str = Field(
        max_length=MAX_ARGUMENT_CHARS,
        description="Python code. Variables stay from one call to the next; what is printed and shown comes back.",
    )


@dataclass
class PythonSession(ToolSession[TaskT]):
    """A tool session, and the process that runs its model's code."""

    runtime: PythonRuntime | None = field(default=None, kw_only=True)
    """None until the first code."""


class PythonToolServer(ToolResourcesServer[TaskT, PythonConfigT]):
    """Subclasses write `setup` and `verify`, and `observe` when a result is worded in another way."""

    config_type = PythonToolServerConfig
    needs_images = True

    def setup(self, session: PythonSession[TaskT]) -> Setup:
        """What the session's process finds; called once, in a thread, when the first code comes."""
        return Setup()

    def observe(self, session: PythonSession[TaskT], execution: Execution) -> ToolOutput:
        """An execution as the model is told of it, in a thread. Its images can be read."""
        return ToolOutput(told(execution))

    def describe_tool(self, task: TaskT) -> str:
        """What a model is told of the tool."""
        return (
            "Run Python code in a process that keeps its variables. Comes back with what it printed and the figures "
            f"and pictures it showed; it may take {self.config.python_runtime.timeout_s:g} seconds."
        )

    def list_tools(self, task: TaskT) -> list[Tool[Any]]:
        return [Tool(TOOL_NAME, self.describe_tool(task), CodeArguments, self.run_code)]

    def make_session(self, request: SeedSessionRequest) -> PythonSession[TaskT]:
        return PythonSession(**vars(super().make_session(request)))

    async def end_session(self, session: ResourcesSession) -> None:
        await super().end_session(session)
        held = _held(session)
        if held.runtime:
            await held.runtime.close()

    async def run_code(self, session: ToolSession[TaskT], arguments: CodeArguments) -> ToolOutput:
        """What the tool does; a subclass that does more around it lists a tool of its own."""
        held = _held(session)
        if held.runtime is None:
            if held.sandbox is None:  # not asked for at the start: saved rollouts are graded again without one
                raise SandboxUnavailable(f"{self.context.name}: code runs in a sandbox: name a sandbox_provider")
            setup = await asyncio.to_thread(self.setup, held)
            held.runtime = PythonRuntime(held.sandbox, self.config.python_runtime, setup)
        execution = await held.runtime.run(arguments.code)
        return await asyncio.to_thread(self._observe_checked, held, execution)

    def _observe_checked(self, session: PythonSession[TaskT], execution: Execution) -> ToolOutput:
        return self.observe(session, with_good_images(execution, self.config.python_runtime.max_image_pixels))


def told(execution: Execution) -> Sequence[str | bytes]:
    """Text, then pictures; notes stand in square brackets after the text."""
    notes = [f"[{note}]" for note in execution.notes]
    text = "\n".join(part for part in (execution.text.rstrip(), *notes) if part)
    if not text:
        return list(execution.images) or ["[no output]"]
    return [text, *execution.images]


def with_good_images(execution: Execution, max_pixels: int) -> Execution:
    """Without images that cannot be read: the model's code can write to the process's socket. Decodes."""
    good = [image for image in execution.images if _is_good(image, max_pixels)]
    if len(good) == len(execution.images):
        return execution
    bad = len(execution.images) - len(good)
    return dataclasses.replace(execution, images=good, notes=[*execution.notes, f"{bad} images could not be read"])


def _is_good(image: bytes, max_pixels: int) -> bool:
    try:
        PreparedImage.from_bytes(image, row="image of the model's code", max_pixels=max_pixels)
    except ValueError:
        return False
    return True


def _held(session: ResourcesSession) -> PythonSession[Any]:
    assert isinstance(session, PythonSession)
    return session
