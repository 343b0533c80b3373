"""The base of an environment whose model writes Python, with a process beside the test."""

import base64
import io
from pathlib import Path

import pytest
from PIL import Image
from pydantic import SecretStr, ValidationError

from gym_core.errors import SandboxUnavailable
from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.python_runtime import (
    CodeArguments,
    Execution,
    PythonRuntime,
    PythonSession,
    PythonToolServer,
    PythonToolServerConfig,
    RuntimeSettings,
    Setup,
    told,
)
from gym_core.servers.python_runtime.server import with_good_images
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.session import SeedSessionRequest
from gym_core.types.task import TaskData
from tests.fakes.process_sandbox import ProcessSandbox


class CluesServer(PythonToolServer[TaskData, PythonToolServerConfig]):
    task_type = TaskData

    def setup(self, session: PythonSession[TaskData]) -> Setup:
        opened = "from PIL import Image\nclue = Image.open(FOLDER + '/clue.png')"
        return Setup({"clue.png": session.shelf[0].content}, opened)


def png(width: int = 3, height: int = 2) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (width, height)).save(content, "PNG")
    return content.getvalue()


def server(**config: object) -> CluesServer:
    given = ServerSlice(
        name="clues",
        type="resources_servers",
        implementation="clues",
        block={},
        run_token=SecretStr("run-token"),
        state_dir="unused",
        url="http://clues",
    )
    return CluesServer(PythonToolServerConfig.model_validate(config), ServerContext(given, HttpPool()))


def session_of(clues: CluesServer) -> PythonSession[TaskData]:
    asked = SeedSessionRequest(
        resources_session_id="s1",
        episode_id=EpisodeId(rollout_id="r", attempt=0),
        task_id=TaskId(taskset="t", task_id="1"),
        task_data={},
    )
    return clues.make_session(asked)


def execution(text: str = "", images: tuple[bytes, ...] = (), notes: tuple[str, ...] = ()) -> Execution:
    return Execution("ok", text, images, restarted=False, notes=notes)


@pytest.mark.parametrize(
    ("ran", "parts"),
    [
        (execution("hello\n"), ["hello"]),
        (execution("hello\n", notes=("cut", "killed")), ["hello\n[cut]\n[killed]"]),
        (execution(notes=("killed",)), ["[killed]"]),
        (execution(images=(b"1", b"2")), [b"1", b"2"]),
        (execution("hello", images=(b"1",)), ["hello", b"1"]),
        (execution(), ["[no output]"]),
    ],
)
def test_a_result_is_its_text_its_notes_and_its_pictures(ran: Execution, parts: list[str | bytes]) -> None:
    assert list(told(ran)) == parts


def test_images_that_cannot_be_read_are_left_out_and_said() -> None:
    torn = png()[:-20]
    found = with_good_images(execution(images=(png(), torn, png(100, 100), b"\x89PNG\r\n\x1a\n")), max_pixels=100)
    assert (found.images, found.notes) == ([png()], ["3 images could not be read"])
    whole = execution(images=(png(),))
    assert with_good_images(whole, max_pixels=100) is whole


def test_the_tool_has_one_argument_and_a_bound() -> None:
    (tool,) = server().list_tools(TaskData())
    function = tool.as_function()
    assert (function.name, function.parameters["required"]) == ("python", ["code"])
    assert "30 seconds" in function.description


def test_a_tool_that_would_time_out_before_its_code_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"tool_timeout_s: 180 is too short for python_runtime.timeout_s 100"):
        server(python_runtime={"timeout_s": 100})
    assert server(python_runtime={"timeout_s": 100}, tool_timeout_s=230).config.tool_timeout_s == 230


async def test_without_a_sandbox_no_code_runs() -> None:
    clues = server()
    with pytest.raises(SandboxUnavailable, match="clues: code runs in a sandbox: name a sandbox_provider"):
        await clues.run_code(session_of(clues), CodeArguments(code="print(1)"))


async def test_a_session_has_one_process_with_the_prompts_image_until_it_ends(tmp_path: Path) -> None:
    clues, box = server(), ProcessSandbox(tmp_path)
    session = session_of(clues)
    session.shelf.put_prompt(0, png(30, 20))
    session.runtime = PythonRuntime(box, RuntimeSettings(), clues.setup(session), folder=str(tmp_path / "r"))
    first = await clues.run_code(session, CodeArguments(code="x = clue.size"))
    second = await clues.run_code(session, CodeArguments(code="print(x)\nclue"))
    await clues.end_session(session)
    assert list(first.parts) == ["[no output]"]
    assert second.parts[0] == "(30, 20)"
    assert Image.open(io.BytesIO(picture_of(second.parts[1]))).size == (30, 20)
    assert "stop" in str(base64.b64decode("".join(box.launches[-1].argv[5:])))


def picture_of(part: object) -> bytes:
    assert isinstance(part, bytes)
    return part
