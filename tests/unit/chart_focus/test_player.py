"""The scripted policy reads drawn figures from the pixels it is sent, the edited ones first."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from PIL import Image

from benchmarks.chart_focus.drawn import drawn_questions
from benchmarks.chart_focus.rows import FigureQuestion, to_task_row
from gym_core.capture.images import make_data_url
from gym_core.datasets.images import png_of
from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn
from resources_servers.chart_focus.answers import final_answer, listed
from resources_servers.chart_focus.focus_tools import FOCUS_TOOLS
from resources_servers.chart_focus.task import ChartTask


@dataclass(frozen=True)
class Told:
    code: str | None
    failed: bool
    answers: list[str]


def message(role: str, *parts: str | bytes) -> ChatMessage:
    content: list[JsonObject] = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": make_data_url(part)}}
        for part in parts
    ]
    return ChatMessage.model_validate({"role": role, "content": content})


def play(question: FigureQuestion, *, looks: bool = True) -> Told:
    row = to_task_row(question)
    text = row["responses_create_params"]["input"][0]["content"][1]["text"]
    messages = [message("user", question.image.content, text)]
    said = next_turn(messages, frozenset(), looks=looks).text
    found = re.search(r"```python\n(.*?)\n```$", said, re.DOTALL)
    code = found[1] if found else None
    failed = False
    if code is not None:
        shown, failed = _run(code, ChartTask.model_validate(row), question.image.content)
        messages += [message("assistant", said), message("user", "<tool_response>\n", *shown, "\n</tool_response>")]
        said = next_turn(messages, frozenset(), looks=looks).text
    return Told(code, failed, listed(final_answer(said) or "", "||"))


def _run(code: str, task: ChartTask, image: bytes) -> tuple[Sequence[bytes], bool]:
    """The policy's own code, which needs no sandbox."""
    shown: list[Image.Image] = []
    with Image.open(io.BytesIO(image)) as opened:
        names = {**FOCUS_TOOLS, **task.variables(), "image_1": opened.convert("RGB"), "display": shown.append}
    try:
        exec(code, names)
    except NameError:
        return [], True
    return [png_of(picture) for picture in shown], False


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_it_is_right_about_every_type_and_kind(seed: int) -> None:
    for question in drawn_questions(seed=seed, tasks=15):
        told = play(question)
        assert told.answers == question.gold.split("|||"), question.question
        in_bars = question.figure_type != "table"
        assert (told.code is None) == (question.kind == "highest" and in_bars)
        assert told.failed == (question.kind == "which_above" and question.figure_type == "h_bar")


def test_without_a_look_it_guesses_and_takes_no_action() -> None:
    for question in drawn_questions(seed=0, tasks=3):
        assert play(question, looks=False) == Told(None, failed=False, answers=["1"])


def test_a_picture_without_what_it_looks_for_is_a_guess_and_no_crash() -> None:
    (question,) = drawn_questions(seed=0, tasks=1)
    row = to_task_row(question)
    text = row["responses_create_params"]["input"][0]["content"][1]["text"]
    blank = png_of(Image.new("RGB", (40, 40), "white"))
    messages = [
        message("user", question.image.content, text),
        message("assistant", "..."),
        message("user", "<tool_response>\n", blank),
    ]
    assert "could not look" in next_turn(messages, frozenset()).text
