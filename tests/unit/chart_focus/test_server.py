"""The server around the sandbox: what its Python is given, how an execution is told, which configs are taken."""

import io
import sys
from pathlib import Path

import pytest
from PIL import Image
from pydantic import ValidationError

from gym_core.capture.images import parse_data_url
from gym_core.errors import InvalidTask, SandboxError
from gym_core.http.client import HttpPool
from gym_core.sandbox.contract import ExecResult, Launch, SandboxSpec
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.python_runtime import CodeArguments, Execution, PythonSession, Setup, runtime
from gym_core.servers.tools import ToolOutput
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.session import SeedSessionReply, SeedSessionRequest
from gym_core.types.wire import JsonObject
from resources_servers.chart_focus.app import ChartFocusConfig, ChartFocusServer
from resources_servers.chart_focus.focus_tools import FOCUS_TOOLS
from resources_servers.chart_focus.runtime import FAILED, NOTHING_SHOWN, chart_setup, observation
from resources_servers.chart_focus.task import ChartTask
from resources_servers.chart_focus.trajectory import RAN
from tests.fakes.sandbox import FakeSandbox
from tests.fakes.serving import serving
from tests.unit.chart_focus.trajectories import BARS, FOCUS, TABLE

JUDGE: JsonObject = {"judge_model_server": {"type": "model_servers", "name": "judge"}}


def png(mode: str = "RGB", color: object = "white") -> bytes:
    content = io.BytesIO()
    Image.new(mode, (30, 50), color).save(content, "PNG")  # type: ignore[arg-type]  # colours of any mode
    return content.getvalue()


def started(setup: Setup, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The namespace after the prelude."""
    for name, content in setup.files.items():
        (folder / name).write_bytes(content)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "focus_tools", raising=False)
    names: dict[str, object] = {"FOLDER": str(folder)}
    exec(setup.prelude, names)
    monkeypatch.delitem(sys.modules, "focus_tools")
    return names


def test_the_runtime_has_functions_boxes_and_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Image.Image] = []
    names = started(chart_setup(BARS, png()), tmp_path, monkeypatch)
    assert set(FOCUS_TOOLS) <= names.keys()
    assert names["x_values_bbox"] == {
        "A": {"x1": 0, "y1": 0, "x2": 10, "y2": 50},
        "B": {"x1": 10, "y1": 0, "x2": 20, "y2": 50},
        "C": {"x1": 20, "y1": 0, "x2": 30, "y2": 50},
    }
    assert names["y_values_bbox"] == names["columns_bbox"] == names["rows_bbox"] == {}
    exec(FOCUS, names | {"display": shown.append})
    (edited,) = shown
    assert [edited.getpixel((x, 25)) for x in (5, 13, 25)] == [(255, 255, 255), (255, 0, 0), (255, 255, 255)]


def test_a_picture_that_is_see_through_lies_on_white(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = started(chart_setup(TABLE, png("RGBA", (0, 0, 0, 0))), tmp_path, monkeypatch)
    image = names["image_1"]
    assert isinstance(image, Image.Image)
    assert (image.mode, image.getpixel((3, 3))) == ("RGB", (255, 255, 255))
    assert list(names["rows_bbox"]) == ["Name", "Ann"]  # type: ignore[call-overload]  # a dict


IMAGE = png()


@pytest.mark.parametrize(
    ("execution", "parts"),
    [
        (Execution("ok", "", [IMAGE], restarted=False, notes=[]), [RAN, IMAGE]),
        (Execution("ok", "hi\n", [IMAGE], restarted=False, notes=["cut"]), [RAN, IMAGE, "hi\n[cut]"]),
        (Execution("ok", "hi", [], restarted=False, notes=[]), [f"{NOTHING_SHOWN}\nhi"]),
        (Execution("raised", "NameError", [IMAGE], restarted=False, notes=[]), [f"{FAILED}\nNameError"]),
        (Execution("raised", f"{RAN}", [IMAGE], restarted=False, notes=[]), [f"{FAILED}\n{RAN}"]),
        (Execution("timed_out", "", [], restarted=True, notes=["too long"]), [f"{FAILED}\n[too long]"]),
        (Execution("died", "", [], restarted=True, notes=[]), [FAILED]),
    ],
)
def test_an_action_is_told_as_an_observation(execution: Execution, parts: list[str | bytes]) -> None:
    assert observation(execution) == ToolOutput(parts)


def server(**config: object) -> ChartFocusServer:
    part = ServerSlice(
        name="c", type="x", implementation="x", block={}, run_token="t", state_dir="unused", url="http://unused"
    )
    return ChartFocusServer(ChartFocusConfig.model_validate(config), ServerContext(part, HttpPool()))


def seed_of(task: JsonObject) -> SeedSessionRequest:
    return SeedSessionRequest(
        resources_session_id="s",
        episode_id=EpisodeId(rollout_id="r"),
        task_id=TaskId(taskset="c", task_id="1"),
        task_data=task,
    )


def session_of(task: JsonObject) -> PythonSession[ChartTask]:
    session = server().make_session(seed_of(task))
    assert isinstance(session, PythonSession)
    return session


def test_the_prompts_image_is_what_the_code_sees() -> None:
    session = session_of(BARS.model_dump(mode="json"))
    with pytest.raises(InvalidTask, match="has an image"):
        server().setup(session)
    session.shelf.put_prompt(0, png())
    assert png() in server().setup(session).files.values()


async def test_boxes_of_another_picture_are_a_mistake_in_the_row_before_a_model_is_asked() -> None:
    async with HttpPool() as pool, serving(server().make_app()) as url:
        seed = seed_of(TABLE.model_dump(mode="json"))
        reply = await pool.service(url, "t").call("POST", "/seed_session", seed, SeedSessionReply)
        assert reply.resources_tools is not None
        agent = pool.service(f"{url}/v1/resources_sessions/s", reply.resources_tools.token)
        for _ in range(2):  # the agent may ask again
            with pytest.raises(InvalidTask, match="'Goals' is outside of the 30x50 picture"):
                await agent.call_raw("PUT", "/images/0", png())


async def test_an_action_that_leaves_no_process_is_told_as_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_START_PAUSE_S", 0.0)
    box = FakeSandbox("box", SandboxSpec())
    session = session_of(BARS.model_dump(mode="json"))
    session.sandbox = box
    session.shelf.put_prompt(0, png())
    started = b'{"outcome": "ok", "head": "", "tail": "", "dropped_bytes": 0, "images": [], "notes": [], '
    started += b'"is_over": false, "life": {"token": "t", "leader": 5, "born": 6}}'
    box.on_exec(lambda launch, sandbox: ExecResult(exit_code=0, stdout=started))
    await server().run_code(session, CodeArguments(code="bomb"))

    def refuse(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
        raise SandboxError("no process to be had")

    box.on_exec(refuse)
    died = await server().run_code(session, CodeArguments(code="display(image_1)"))
    lost = await server().run_code(session, CodeArguments(code="display(image_1)"))
    assert str(died.parts[0]).startswith(f"{FAILED}\n[the Python process ended")
    assert str(lost.parts[0]).startswith(f"{FAILED}\n[no new Python process could be started")


@pytest.mark.parametrize(
    "change",
    [
        {"figure_type": "pie"},
        {"expected_answer": "|||"},
        {"boxes": {"x_values": {"A": [5, 0, 5, 9]}}},
        {"boxes": {"bars": {}}},
        {"roi": [[0, 0, 1]]},
    ],
)
def test_a_row_that_is_none_is_refused_when_it_is_seeded(change: JsonObject) -> None:
    with pytest.raises(InvalidTask, match="ChartTask"):
        session_of(BARS.model_dump(mode="json") | change)


def test_a_judge_is_asked_only_where_its_channel_has_a_weight() -> None:
    assert server().judge is None
    assert server(**JUDGE).judge is None
    with pytest.raises(ValidationError, match="needs judge_model_server"):
        ChartFocusConfig.model_validate({"reward": {"channels": {"judge": 1}}})


def test_a_data_url_of_an_example_is_a_whole_picture() -> None:
    path = Path(__file__).parents[3] / "resources_servers/chart_focus/data/example.jsonl"
    import json

    for line in path.read_text().splitlines():
        url = json.loads(line)["responses_create_params"]["input"][0]["content"][0]["image_url"]
        with Image.open(io.BytesIO(parse_data_url(url))) as image:
            image.load()
