"""The tool: clamping, refusal, scaling, caption; and the scripted policy that uses it, on the real figures."""

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.geo3k_zoom.prepare import INSTRUCTION
from gym_core.capture.images import make_data_url, parse_data_url
from gym_core.config.roots import INSTALL_DIR
from gym_core.datasets.prepared import read_dataset
from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.tools import ToolResourcesServerConfig, ToolSession
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import InputImage, InputText
from gym_core.types.session import SeedSessionRequest
from gym_core.types.tool import ToolReply, ToolRequest
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn
from resources_servers.geo3k_zoom.app import Geo3kServer
from resources_servers.geo3k_zoom.grading import Geo3kTask
from tests.unit.geo3k.problems import Problem, problems

WIDTH, HEIGHT = 400, 200


def figure(mode: str = "RGB") -> bytes:
    """Red on the left half, blue on the right."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "red")
    image.paste("blue", (WIDTH // 2, 0, WIDTH, HEIGHT))
    png = io.BytesIO()
    image.convert(mode).save(png, "PNG")
    return png.getvalue()


@pytest.fixture
def server() -> Geo3kServer:
    part = ServerSlice(
        name="g", type="x", implementation="x", block={}, run_token="t", state_dir="unused", url="http://unused"
    )
    return Geo3kServer(ToolResourcesServerConfig(), ServerContext(part, HttpPool()))


def seeded(server: Geo3kServer, content: bytes) -> ToolSession[Geo3kTask]:
    request = SeedSessionRequest(
        resources_session_id="s",
        episode_id=EpisodeId(rollout_id="r"),
        task_id=TaskId(taskset="g", task_id="1"),
        task_data={"expected_answer": "1"},
    )
    session = server.make_session(request)
    session.shelf.put_prompt(0, content)
    return session


async def zoomed(
    server: Geo3kServer, session: ToolSession[Geo3kTask], arguments: object, call_id: str = "c"
) -> ToolReply:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return await server.call_tool(session, ToolRequest(call_id=call_id, name="zoom", arguments=text))


def seen(reply: ToolReply) -> tuple[Image.Image, str]:
    image, caption = reply.content
    assert isinstance(image, InputImage)
    assert isinstance(caption, InputText)
    return Image.open(io.BytesIO(parse_data_url(image.image_url))), caption.text


def said(reply: ToolReply) -> str:
    (part,) = reply.content
    assert isinstance(part, InputText)
    return part.text


@pytest.mark.parametrize(
    ("box", "size", "caption"),
    [
        ((0, 0, 1, 1), (400, 200), "[0.000, 0.000, 1.000, 1.000]"),
        ((0, 0, 0.5, 1), (400, 400), "[0.000, 0.000, 0.500, 1.000]"),
        ((0.25, 0.25, 0.75, 0.75), (400, 200), "[0.250, 0.250, 0.750, 0.750]"),
        ((0, 0, 0.1, 1), (80, 400), "[0.000, 0.000, 0.100, 1.000]"),
        ((-3, -0.5, 0.5, 7), (400, 400), "[0.000, 0.000, 0.500, 1.000]"),
        ((0.5, 0, 0.52, 0.02), (400, 200), "[0.500, 0.000, 0.520, 0.020]"),
    ],
)
async def test_a_box_is_clamped_cut_out_and_scaled_up_to_the_figures_long_edge(
    server: Geo3kServer, box: tuple[float, ...], size: tuple[int, int], caption: str
) -> None:
    reply = await zoomed(server, seeded(server, figure()), dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)))
    image, text = seen(reply)
    assert not reply.is_error
    assert image.size == size
    assert caption in text


async def test_it_shows_what_is_there_and_in_true_colours(server: Geo3kServer) -> None:
    for mode in ("RGB", "P"):
        session = seeded(server, figure(mode))
        image, _ = seen(await zoomed(server, session, {"x0": 0.6, "y0": 0, "x1": 0.9, "y1": 1}))
        assert image.convert("RGB").getcolors() == [(image.width * image.height, (0, 0, 255))]
        assert session.shelf[0].content == figure(mode)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x0": 0.5, "y0": 0, "x1": 0.51, "y1": 1}, "is too small or inverted"),
        ({"x0": 0.8, "y0": 0, "x1": 0.2, "y1": 1}, "is too small or inverted"),
        ({"x0": 0, "y0": 1.5, "x1": 1, "y1": 2}, "is too small or inverted"),
        ({"x0": 0, "y0": 0, "x1": 1}, "the arguments of zoom do not fit: y1"),
        ({"x0": "a", "y0": 0, "x1": 1, "y1": 1}, "x0"),
        ({"x0": 0, "y0": 0, "x1": 1, "y1": 1, "z": 1}, "z"),
        ('{"x0": NaN, "y0": 0, "x1": 1, "y1": 1}', "x0"),
        ("zoom in", "do not fit"),
    ],
)
async def test_what_cannot_be_enlarged_is_told_to_the_model(
    server: Geo3kServer, arguments: object, message: str
) -> None:
    reply = await zoomed(server, seeded(server, figure()), arguments)
    assert reply.is_error
    assert message in said(reply)


@pytest.mark.parametrize("problem", problems(), ids=lambda problem: problem.id)
async def test_the_scripted_policy_looks_twice_and_answers(server: Geo3kServer, problem: Problem) -> None:
    session = seeded(server, problem.png)
    image = {"type": "image_url", "image_url": {"url": make_data_url(problem.png)}}
    messages = [_message("user", [image, {"type": "text", "text": f"{INSTRUCTION} {problem.text}"}])]
    captions = []
    for n in range(2):
        (call,) = next_turn(messages, {"zoom"}).calls
        reply = await zoomed(server, session, call.arguments, call_id=f"c{n}")
        picture, caption = seen(reply)
        original = Image.open(io.BytesIO(problem.png))
        assert max(picture.size) == max(original.size)
        captions.append(caption)
        messages += [_message("assistant", "I look."), _message("tool", caption)]
    assert len(set(captions)) == 2
    last = next_turn(messages, {"zoom"})
    assert not last.calls
    assert "\\boxed{1}" in last.text


def _message(role: str, content: object) -> ChatMessage:
    return ChatMessage.model_validate({"role": role, "content": content})


def test_the_example_rows_are_tasks_whose_golds_fit_their_options(tmp_path: Path) -> None:
    rows = (INSTALL_DIR / "resources_servers/geo3k_zoom/data/example.jsonl").read_text()
    copied = tmp_path / "example.jsonl"
    copied.write_text(rows)
    tasks = [Geo3kTask.model_validate(task.task_data) for task in read_dataset(copied)]
    assert [(task.expected_answer, len(task.options)) for task in tasks] == [("10", 0), ("C", 4)]
