"""The scripted policy's programs measure what the questions ask, from pixels and frames alone."""

import contextlib
import io
import json
import re
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from PIL import Image

from agent_servers.tool_agent.dialects.code_blocks import CodeBlocks
from agent_servers.tool_agent.dialects.contract import ToolCall
from benchmarks.pyvision.prepare import prepare
from gym_core.datasets.prepared import assets_of
from gym_core.datasets.video_reader import VideoReader
from gym_core.servers.chat import SaidMessage
from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn
from resources_servers.pyvision.answer import read_answer
from resources_servers.pyvision.grading import PyVisionTask, Rules, grade
from resources_servers.pyvision.observation import Observation
from resources_servers.pyvision.videos import InlineVideo
from tests.unit.pyvision.replies import Ran, reply_of

SEED, PER_KIND = 11, 4
NOTHING: frozenset[str] = frozenset()


@pytest.fixture(scope="module", params=["images", "videos"])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[JsonObject]]:
    folder = tmp_path_factory.mktemp("rows")
    path = prepare({"clues": request.param, "seed": SEED, "per_kind": PER_KIND}, folder / "d.jsonl")
    return path, [json.loads(line) for line in path.read_text().splitlines()]


def namespace_of(path: Path, row: JsonObject) -> dict[str, object]:
    """As the runtime's, with a pyplot that draws nothing."""
    plt = MagicMock()
    axes = MagicMock()
    axes.flat = [MagicMock()] * 12
    plt.subplots.return_value = (MagicMock(), axes)
    names: dict[str, object] = {"np": np, "plt": plt, "Image": Image}
    parts = row["responses_create_params"]["input"][0]["content"]
    images = [part["image_url"] for part in parts if part["type"] == "input_image"]
    for index, url in enumerate(images):
        content = assets_of(path).get(url.removeprefix("sha256:"))
        names[f"image_clue_{index}"] = Image.open(io.BytesIO(content)).convert("RGB")
    for index, video in enumerate(PyVisionTask.model_validate(row).videos):
        assert isinstance(video, InlineVideo)
        file = path.with_name(f"{row['task_id']['task_id']}.mp4")
        file.write_bytes(video.content())
        names[f"video_clue_{index}"] = VideoReader(str(file))
    return names


def run(code: str, names: dict[str, object]) -> Observation:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, names)
    except Exception as error:  # noqa: BLE001 - as the runtime tells it
        return Observation(f"{printed.getvalue()}{type(error).__name__}: {error}", (), is_whole=False)
    return Observation(printed.getvalue(), (), is_whole=True)


def question_of(row: JsonObject) -> ChatMessage:
    parts = row["responses_create_params"]["input"][0]["content"]
    text = "\n".join(part["text"] for part in parts if part["type"] == "input_text")
    return ChatMessage(role="user", content=text)


async def test_it_errs_once_measures_and_is_right(rows: tuple[Path, list[JsonObject]]) -> None:
    path, found = rows
    for row in found:
        names = namespace_of(path, row)
        messages, whole = [question_of(row)], []
        for turn in range(2):
            said = next_turn(messages, NOTHING).text
            (call,) = CodeBlocks().read(SaidMessage(content=said), [], turn=turn).calls
            assert isinstance(call, ToolCall)
            seen = run(json.loads(call.arguments)["code"], names)
            whole.append(seen.is_whole)
            told = "\n".join(part for part in seen.parts(1) if isinstance(part, str))
            messages += [
                ChatMessage(role="assistant", content=said),
                ChatMessage(role="user", content=f"<tool_response>\n{told}\n</tool_response>"),
            ]
        assert whole == [False, True], row["question"]
        answer = next_turn(messages, NOTHING).text
        verification = await grade(PyVisionTask.model_validate(row), reply_of(Ran(), Ran("2"), said=answer), Rules())
        assert verification.reward == 1.0, (row["task_id"], answer, row["expected_answer"])


def test_a_policy_that_does_not_look_guesses(rows: tuple[Path, list[JsonObject]]) -> None:
    turn = next_turn([question_of(rows[1][0])], NOTHING, looks=False)
    assert read_answer(turn.text).text == "1"


def test_an_unknown_question_is_looked_at_once_and_guessed(rows: tuple[Path, list[JsonObject]]) -> None:
    row = rows[1][0]
    asked = re.sub(r"Question: .*", "Question: What is it?", question_of(row).text, flags=re.DOTALL)
    messages = [ChatMessage(role="user", content=asked)]
    first = next_turn(messages, NOTHING)
    assert "</code>" in first.text
    told = ChatMessage(role="user", content="<tool_response>\nText Result:\nx\n</tool_response>")
    assert "guess" in next_turn([*messages, ChatMessage(role="assistant", content=first.text), told], NOTHING).text
