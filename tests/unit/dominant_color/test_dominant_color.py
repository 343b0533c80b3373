"""The benchmark: its rows, its grader, and what the scripted policy earns by looking and by not looking."""

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.dominant_color.prepare import prepare
from benchmarks.dominant_color.tiles import DOMINANT_TILES, PALETTE, SHADE, SIDE_PX, TILES, draw_recall
from gym_core.capture.images import make_data_url, parse_data_url
from gym_core.datasets.prepared import assets_of, read_dataset
from gym_core.errors import ConfigError, InvalidTask
from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.resources import Submission
from gym_core.servers.tools import ToolResourcesServerConfig
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import OutputMessage, OutputText, ResponsesReply
from gym_core.types.session import SeedSessionRequest
from gym_core.types.tool import ToolRequest
from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn
from resources_servers.dominant_color.app import DominantColorServer, DominantColorTask

TOOL = frozenset({"see_next_image"})


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[JsonObject]]:
    path = prepare({"seed": 3, "tasks": 12}, tmp_path_factory.mktemp("data") / "d.jsonl")
    return path, [json.loads(line) for line in path.read_text().splitlines()]


def test_a_seed_is_the_same_file_and_another_one_another(tmp_path: Path, rows: tuple[Path, list[JsonObject]]) -> None:
    again = prepare({"seed": 3, "tasks": 12}, tmp_path / "a.jsonl")
    other = prepare({"seed": 4, "tasks": 12}, tmp_path / "b.jsonl")
    assert again.read_bytes() == rows[0].read_bytes()
    assert not set(again.read_text().splitlines()) & set(other.read_text().splitlines())
    assert len(list(read_dataset(other))) == 12


@pytest.mark.parametrize("args", [{"tasks": 0}, {"seed": -1}, {"rows": 3}])
def test_wrong_arguments_are_named(tmp_path: Path, args: JsonObject) -> None:
    with pytest.raises(ConfigError, match="prepare_args"):
        prepare(args, tmp_path / "x.jsonl")


def test_every_picture_has_its_colour_on_35_of_64_tiles_and_no_shade_is_anothers() -> None:
    for index in range(6):
        recall = draw_recall(0, index)
        for picture, color in zip(recall.pictures, recall.colors, strict=True):
            assert picture.size == (SIDE_PX, SIDE_PX)
            step = SIDE_PX // TILES
            tiles = [picture.getpixel((x, y)) for x in range(0, SIDE_PX, step) for y in range(0, SIDE_PX, step)]
            names = Counter(name for tile in tiles for name, shade in PALETTE.items() if _is_near(tile, shade))
            assert names.total() == TILES * TILES  # each tile is a shade of one colour alone
            assert names[color] >= DOMINANT_TILES


def _is_near(tile: object, shade: tuple[int, int, int]) -> bool:
    assert isinstance(tile, tuple)
    return all(abs(a - b) <= SHADE for a, b in zip(tile, shade, strict=True))


def test_the_policy_is_shown_neither_gold_nor_the_later_pictures(rows: tuple[Path, list[JsonObject]]) -> None:
    for row in rows[1]:
        shown = json.dumps(row["responses_create_params"])
        assert row["expected_answer"] not in shown
        assert all(url not in shown for url in row["later_images"])


def _server() -> DominantColorServer:
    part = ServerSlice(
        name="d", type="x", implementation="x", block={}, run_token="t", state_dir="unused", url="http://unused"
    )
    return DominantColorServer(ToolResourcesServerConfig(), ServerContext(part, HttpPool()))


def _seeding(row: JsonObject) -> SeedSessionRequest:
    return SeedSessionRequest(
        resources_session_id="s",
        episode_id=EpisodeId(rollout_id="r"),
        task_id=TaskId(taskset="d", task_id="1"),
        task_data={name: row[name] for name in ("expected_answer", "later_images")},
    )


@pytest.mark.parametrize(
    ("said", "reward", "in_place"),
    [
        ("\\boxed{red, blue, green}", 1.0, 3),
        ("so \\boxed{Red,blue ,  GREEN.}", 1.0, 3),
        ("Answer: red, blue and green", 1.0, 3),
        ("\\boxed{red blue green}", 1.0, 3),
        ("\\boxed{[red -> blue -> green]}", 1.0, 3),
        ("\\boxed{\\text{red, blue, green}}", 1.0, 3),
        ("\\boxed{\\text{red}, \\text{blue}, \\text{green}}", 1.0, 3),
        ("\\boxed{\\textbf{Red} \\to \\textbf{blue} \\to \\textbf{green}}", 1.0, 3),
        ("\\boxed{red,\\ blue,\\ green}", 1.0, 3),
        ("\\boxed{\\{red, blue, green\\}}", 1.0, 3),
        ("\\boxed{'red', \"blue\", `green`}", 1.0, 3),
        ("\\boxed{**red, blue, green**}", 1.0, 3),
        ("\\boxed{red/blue/green}", 1.0, 3),
        ("\\boxed{\\text{blue, red, green}}", 0.0, 1),
        ("\\boxed{red, not blue, green}", 0.0, 1),
        ("\\boxed{red, blue or black, green}", 0.0, 2),
        ("\\boxed{blue, red, green}", 0.0, 1),
        ("\\boxed{red, blue}", 0.0, 2),
        ("\\boxed{red, blue, green, green}", 0.0, 3),
        ("red, blue, green", 0.0, 0),
        ("", 0.0, 0),
    ],
)
async def test_all_colours_in_their_order_or_nothing(said: str, reward: float, in_place: int) -> None:
    server = _server()
    task = DominantColorTask(expected_answer="red, blue, green", later_images=[])
    reply = ResponsesReply(
        id="r", created_at=0, status="completed", output=[OutputMessage(id="m", content=[OutputText(text=said)])]
    )
    session = server.make_session(_seeding({"expected_answer": "red, blue, green", "later_images": []}))
    verification = await server.verify(Submission(task, reply, session))
    assert (verification.reward, verification.details["colors_in_place"]) == (reward, in_place)


@pytest.mark.parametrize("answer", ["", " ", "{}", ", ,", "\\text{}"])
def test_a_row_whose_answer_names_no_colour_is_refused(answer: str) -> None:
    with pytest.raises(InvalidTask, match="expected_answer: .* names no colour"):
        _server().make_session(_seeding({"expected_answer": answer, "later_images": []}))


async def converse(path: Path, row: JsonObject, *, looks: bool, tools: frozenset[str] = TOOL) -> tuple[str, int]:
    """What the scripted policy answers in the end, and how many calls it made."""
    server = _server()
    session = server.make_session(_seeding(row))
    first, question = row["responses_create_params"]["input"][0]["content"]
    sha256 = first["image_url"].removeprefix("sha256:")
    shown = {"type": "image_url", "image_url": {"url": make_data_url(assets_of(path).get(sha256))}}
    messages = [_message("user", [shown, {"type": "text", "text": question["text"]}])]
    for n in range(8):
        turn = next_turn(messages, tools, looks=looks)
        if not turn.calls:
            return turn.text, n
        (call,) = turn.calls
        reply = await server.call_tool(session, ToolRequest(call_id=f"c{n}", name=call.name, arguments="{}"))
        messages += [_message("assistant", turn.text), _message("tool", reply.content[0].text)]  # type: ignore[union-attr]  # a text comes first
        pictures = [part.image_url for part in reply.content if part.type == "input_image"]
        if pictures:
            parts = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
            messages.append(_message("user", [{"type": "text", "text": "Attached media from tool result:"}, *parts]))
    raise AssertionError("it never ends")


def _message(role: str, content: object) -> ChatMessage:
    return ChatMessage.model_validate({"role": role, "content": content})


async def test_the_scripted_policy_is_right_when_it_looks(rows: tuple[Path, list[JsonObject]]) -> None:
    for row in rows[1]:
        assert await converse(rows[0], row, looks=True) == (
            f"The tiles of each picture, counted by colour, give \\boxed{{{row['expected_answer']}}}",
            2,
        )


async def test_and_seldom_when_it_does_not(rows: tuple[Path, list[JsonObject]]) -> None:
    right = 0
    for row in rows[1]:
        said, n_calls = await converse(rows[0], row, looks=False)
        assert n_calls == 0
        right += row["expected_answer"] in said
    assert right <= 2


async def test_without_the_tool_it_answers_for_the_one_picture_it_sees(rows: tuple[Path, list[JsonObject]]) -> None:
    path, (row, *_) = rows
    said, n_calls = await converse(path, row, looks=True, tools=frozenset())
    assert (said.endswith(f"\\boxed{{{row['expected_answer'].split(',')[0]}}}"), n_calls) == (True, 0)


async def test_past_the_last_picture_the_tool_says_so(rows: tuple[Path, list[JsonObject]]) -> None:
    server = _server()
    session = server.make_session(_seeding(rows[1][0]))
    asked = [ToolRequest(call_id=f"c{n}", name="see_next_image", arguments="") for n in range(3)]
    replies = [await server.call_tool(session, one) for one in asked]
    assert [reply.is_error for reply in replies] == [False, False, True]
    assert "no picture left" in replies[2].content[0].text  # type: ignore[union-attr]  # an error is a text


def test_a_picture_that_is_none_is_a_guess_and_no_crash() -> None:
    question = "shown 3 pictures. Call see_next_image to see the next picture"
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    turn = next_turn([_message("user", [image, {"type": "text", "text": question}])], frozenset())
    assert "could not look" in turn.text


def test_the_example_rows_are_three_tasks_with_whole_pictures() -> None:
    path = Path(__file__).parents[3] / "resources_servers/dominant_color/data/example.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for row in found:
        urls = [row["responses_create_params"]["input"][0]["content"][0]["image_url"], *row["later_images"]]
        for url in urls:
            assert _size(parse_data_url(url)) == (SIDE_PX, SIDE_PX)
    assert len(found) == 3


def _size(content: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(content)) as image:
        return image.size
