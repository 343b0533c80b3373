"""The base of an environment whose tools run in its resources server, and what its author writes one tool with.

    class ZoomArguments(ToolArguments):
        x0: float = Field(ge=0, le=1, description="left edge, as a fraction of the width")

    class ZoomServer(ToolResourcesServer[ZoomTask, ToolResourcesServerConfig]):
        needs_images = True

        def list_tools(self, task: ZoomTask) -> list[Tool[Any]]:
            return [Tool("zoom", "Enlarge a part of the image.", ZoomArguments, zoom)]

A model's mistake (no such tool, arguments that do not fit, `ToolError`) is told to the model. Any other error of a tool
is a bug of ours and masks the sample, and so is a call that takes too long, but where `late_is_told` says that this is
the model's doing. Grade from `submission.response`, which holds calls and results: a saved run is
graded again without its tools having run.
"""

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from gym_core.capture.images import make_data_url
from gym_core.errors import EpisodeError, FailureKind, SessionError
from gym_core.http.app import first_mistakes
from gym_core.http.auth import bearer_token, new_token, same_token
from gym_core.http.problem import BAD_REQUEST, problem_response
from gym_core.servers.context import ServerContext
from gym_core.servers.image_shelf import ImageShelf, ShelfFull, ShelfLimits
from gym_core.servers.resources import ResourcesServer, ResourcesServerConfig, ResourcesSession, TaskT
from gym_core.servers.tool_threads import ToolThreads
from gym_core.types.responses import InputImage, InputPart, InputText
from gym_core.types.session import SeedSessionRequest
from gym_core.types.tool import REFUSED, ToolAccess, ToolFunction, ToolReply, ToolRequest
from gym_core.types.wire import JsonObject

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

MAX_ARGUMENT_CHARS = 64 << 10
MAX_CALLS = 1000
"""Of one session, remembered so that a call asked again runs once; an agent's own budget lies far below."""
_BASE = "/v1/resources_sessions"


class ToolArguments(BaseModel):
    """Base of a tool's arguments. Give each field its bounds and a description: the model reads them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ToolError(Exception):
    """The call cannot be done, and the model can do something about it; the message is for the model."""


@dataclass(frozen=True)
class ToolOutput:
    """What a tool gives back, in order: texts, and images as pictures or files. Images are put on the shelf."""

    parts: Sequence[str | bytes | Image.Image]
    ends: bool = False
    """The episode is over; the model is asked nothing more."""


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Tool(Generic[ArgumentsT]):
    name: str
    description: str
    arguments: type[ArgumentsT]
    run: "Callable[[ToolSession[Any], ArgumentsT], ToolOutput | Awaitable[ToolOutput]]"
    """A plain function runs in a thread; an async one on the loop, which it must not block. One at a time a session."""
    late_is_told: bool = field(default=False, kw_only=True)
    """How long it takes is up to what the model asks: a call past the time limit is told to the model, not masked."""

    def as_function(self) -> ToolFunction:
        return ToolFunction(name=self.name, description=self.description, parameters=schema_of(self.arguments))


def schema_of(arguments: type[ToolArguments]) -> JsonObject:
    """The JSON schema of a class of arguments, without the titles that pydantic adds."""
    bare: JsonObject = _without_titles(arguments.model_json_schema())
    bare.pop("description", None)  # of the class: the tool has its own
    return {"properties": {}} | bare


def _without_titles(schema: Any) -> Any:  # Any: JSON of any shape
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # A title is a text; a property that is called "title" is a schema.
    return {key: _without_titles(value) for key, value in schema.items() if key != "title" or isinstance(value, dict)}


@dataclass
class ToolSession(ResourcesSession, Generic[TaskT]):
    """What the server holds for one episode."""

    task: TaskT = field(kw_only=True)
    tools: dict[str, Tool[Any]] = field(kw_only=True)
    shelf: ImageShelf = field(kw_only=True)
    token: str = field(default_factory=new_token, repr=False)
    calls: "dict[str, _Call]" = field(default_factory=dict)
    """By call id."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a tool runs or an image is put on the shelf."""
    thread: "asyncio.Future[Any] | None" = None
    """What runs for this session in a thread. No time limit stops a thread, so it may go on behind a late call."""

    async def settle(self, timeout_s: float) -> None:
        """Wait for what a late call left running, so that a session has one thread. Raises ToolError if it stays."""
        if self.thread is not None and not self.thread.done():
            _, still_running = await asyncio.wait([self.thread], timeout=timeout_s)
            if still_running:
                raise ToolError("an earlier call, which took too long, still runs: answer with what you know")


@dataclass
class _Call:
    request: ToolRequest
    running: "asyncio.Task[_Result]"


@dataclass(frozen=True)
class _Result:
    """A reply without the bytes of its pictures."""

    parts: tuple[str | int, ...]
    """Texts, and indices of the shelf."""
    is_error: bool = False
    ends: bool = False


class ToolResourcesServerConfig(ResourcesServerConfig):
    tool_images: ShelfLimits = ShelfLimits()
    tool_timeout_s: float = Field(default=60.0, gt=0)
    """Of one call, from when a thread has taken it up; past it the tool is taken for broken, and the sample masked, but
    see `Tool.late_is_told`. A call that waits for a thread as long is masked."""


ToolConfigT = TypeVar("ToolConfigT", bound=ToolResourcesServerConfig)


class ToolResourcesServer(ResourcesServer[TaskT, ToolConfigT]):
    """Subclasses write `list_tools` and `verify`, and set `needs_images` when tools look at the prompt's images."""

    config_type = ToolResourcesServerConfig
    needs_images: ClassVar[bool] = False
    own_paths = (*ResourcesServer.own_paths, f"{_BASE}/")

    def __init__(self, config: ToolConfigT, context: ServerContext) -> None:
        super().__init__(config, context)
        self.threads = ToolThreads()

    async def close(self) -> None:
        await super().close()
        self.threads.close()

    def list_tools(self, task: TaskT) -> Sequence[Tool[Any]]:
        """The tools of one episode, in the order in which a model is told of them."""
        raise NotImplementedError(f"{type(self).__name__} has no tools: write `list_tools`")

    def check_image(self, session: ToolSession[TaskT], index: int) -> None:
        """Hold an image of the prompt, which is on the shelf, against the task, before a model is asked. In a thread.
        Raises InvalidTask for a row that cannot be graded."""

    def make_session(self, request: SeedSessionRequest) -> ToolSession[TaskT]:
        task = self.read_task(request.task_data)
        tools = {tool.name: tool for tool in self.list_tools(task)}
        return ToolSession(request, task=task, tools=tools, shelf=ImageShelf(self.config.tool_images))

    def tool_access(self, session: ResourcesSession) -> ToolAccess | None:
        held = _held(session)
        return ToolAccess(
            url=f"{self.context.slice.url}{_BASE}/{held.request.resources_session_id}",
            token=held.token,
            functions=[tool.as_function() for tool in held.tools.values()],
            needs_images=self.needs_images,
        )

    async def end_session(self, session: ResourcesSession) -> None:
        calls = [call.running for call in _held(session).calls.values()]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    # -- routes -------------------------------------------------------------

    def add_routes(self, app: "FastAPI") -> None:
        super().add_routes(app)
        put_image, call_tool = f"{_BASE}/{{session_id}}/images/{{index}}", f"{_BASE}/{{session_id}}/tools"
        app.add_api_route(put_image, self._put_image_route, methods=["PUT"], response_model=None)
        app.add_api_route(call_tool, self._call_tool_route, methods=["POST"], response_model=None)

    async def _put_image_route(self, request: Request) -> Response:
        session = self._redeem(request)
        index = request.path_params["index"]
        if not (index.isascii() and index.isdecimal() and len(index) <= 6):
            raise ValueError(f"image index {index[:20]!r} is no number from 0")
        content = await request.body()
        async with session.turn:
            await asyncio.to_thread(self._put_image, session, int(index), content)
        return Response(status_code=204)

    def _put_image(self, session: ToolSession[TaskT], index: int, content: bytes) -> None:
        session.shelf.put_prompt(index, content)
        self.check_image(session, index)

    async def _call_tool_route(self, request: Request) -> Response:
        session = self._redeem(request)
        try:
            asked = ToolRequest.model_validate_json(await request.body())
        except ValidationError as error:
            return problem_response(422, BAD_REQUEST, f"a tool call: {first_mistakes(error)}")
        reply = await self.call_tool(session, asked)
        return Response(await asyncio.to_thread(reply.to_json), media_type="application/json")

    def _redeem(self, request: Request) -> ToolSession[TaskT]:
        """The session that the path names, if the caller may use it. Raises SessionError."""
        session_id = request.path_params["session_id"]
        session = _held(self.sessions.find(session_id))
        if not same_token(bearer_token(request.scope["headers"]) or "", session.token):
            raise SessionError(f"session {session_id!r}: the token is not good for it", kind=FailureKind.SESSION_LOST)
        return session

    # -- calls --------------------------------------------------------------

    async def call_tool(self, session: ToolSession[TaskT], asked: ToolRequest) -> ToolReply:
        """Run a call, once for each call id. Raises EpisodeError for a tool that broke, SessionError for a used id."""
        call = session.calls.get(asked.call_id)
        if call is None:
            if len(session.calls) >= MAX_CALLS:
                raise SessionError(f"more than {MAX_CALLS} tool calls", kind=FailureKind.SESSION_CONFLICT)
            running = asyncio.create_task(self._run(session, asked), name=f"tool-{asked.call_id}")
            call = session.calls[asked.call_id] = _Call(asked, running)
        elif call.request != asked:
            raise SessionError(f"call id {asked.call_id!r} was another call", kind=FailureKind.SESSION_CONFLICT)
        result = await asyncio.shield(call.running)  # a caller that leaves and asks again finds it
        return ToolReply(
            content=[_part(session.shelf, part) for part in result.parts], is_error=result.is_error, ends=result.ends
        )

    async def _run(self, session: ToolSession[TaskT], asked: ToolRequest) -> _Result:
        try:
            async with session.turn:
                await session.settle(self.config.tool_timeout_s)
                tool, arguments = _read_call(session.tools, asked)
                return await self._made(session, tool, arguments)
        except (ToolError, ShelfFull) as mistake:
            return _Result((f"{REFUSED}{mistake}",), is_error=True)
        except EpisodeError:
            raise
        except TimeoutError as error:
            raise _broken(asked, f"no result within {self.config.tool_timeout_s:g} s") from error
        except Exception as bug:
            log.exception("tool raised", extra={"tool": asked.name})
            raise _broken(asked, f"{type(bug).__name__}: {bug}") from bug

    async def _made(self, session: ToolSession[TaskT], tool: Tool[Any], arguments: ToolArguments) -> _Result:
        """Raises TimeoutError for a call that takes too long, ToolError where that is told."""
        limit = asyncio.timeout(self.config.tool_timeout_s)
        try:
            async with limit:
                output = await self._output(tool, session, arguments, limit)
                parts = await self._in_thread(session, limit, _shelve, session.shelf, output)
        except TimeoutError as late:
            if not (limit.expired() and tool.late_is_told):
                raise
            raise ToolError(
                f"{tool.name} had no result within {self.config.tool_timeout_s:g} s: ask for less, such as a smaller"
                " part of the image"
            ) from late
        return _Result(parts, ends=output.ends)

    async def _output(
        self, tool: Tool[Any], session: ToolSession[TaskT], arguments: ToolArguments, limit: asyncio.Timeout
    ) -> ToolOutput:
        is_async = inspect.iscoroutinefunction(tool.run)
        run = functools.partial(tool.run, session, arguments)
        found = run() if is_async else await self._in_thread(session, limit, run)
        return await found if inspect.isawaitable(found) else found

    async def _in_thread(
        self,
        session: ToolSession[TaskT],
        limit: asyncio.Timeout,
        work: Callable[..., ResultT],
        *arguments: Any,  # Any: the work's own
    ) -> ResultT:
        """What the work gives, which has the whole limit from when a thread took it up. Cancelled, it leaves the thread
        running. Raises ThreadsBusy."""
        timeout_s = self.config.tool_timeout_s
        limit.reschedule(None)  # a wait for a thread is no work of the call
        running = session.thread = await self.threads.start(work, *arguments, timeout_s=timeout_s)
        limit.reschedule(asyncio.get_running_loop().time() + timeout_s)
        return await asyncio.shield(running)


def _held(session: ResourcesSession) -> ToolSession[Any]:
    assert isinstance(session, ToolSession)
    return session


def _read_call(tools: dict[str, Tool[Any]], asked: ToolRequest) -> tuple[Tool[Any], ToolArguments]:
    """Raises ToolError with words for the model."""
    tool = tools.get(asked.name)
    if tool is None:
        raise ToolError(f"there is no tool {asked.name[:64]!r}; there are: {', '.join(tools)}")
    if len(asked.arguments) > MAX_ARGUMENT_CHARS:
        raise ToolError(f"the arguments of {tool.name} are longer than {MAX_ARGUMENT_CHARS} characters")
    try:
        arguments: ToolArguments = tool.arguments.model_validate_json(asked.arguments or "{}")
    except ValidationError as error:
        raise ToolError(f"the arguments of {tool.name} do not fit: {first_mistakes(error)[:1000]}") from error
    return tool, arguments


def _shelve(shelf: ImageShelf, output: ToolOutput) -> tuple[str | int, ...]:
    indices = iter(shelf.add([part for part in output.parts if not isinstance(part, str)]))
    return tuple(part if isinstance(part, str) else next(indices) for part in output.parts)


def _part(shelf: ImageShelf, part: str | int) -> InputPart:
    if isinstance(part, str):
        return InputText(text=part)
    return InputImage(image_url=make_data_url(shelf[part].content))


def _broken(asked: ToolRequest, reason: str) -> EpisodeError:
    return EpisodeError(f"tool {asked.name[:64]!r} broke: {reason}"[:600], kind=FailureKind.VERIFIER_ERROR)
