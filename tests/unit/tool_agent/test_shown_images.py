"""What the model is shown, what it may use in all, and what the task's own prompt says instead of ours."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agent_servers.tool_agent.shown_images import ShownPixels, fitting_size
from gym_core.capture.images import make_data_url, parse_data_url
from gym_core.types.responses import InputImage, InputMessage, InputText, ResponsesBody
from tests.fakes.model import Says
from tests.unit.opencode.pictures import picture
from tests.unit.tool_agent.test_loop import BODY, cut, play

LIMITS = ShownPixels(least=64, most=256)


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_size_is_brought_within_the_limits_and_keeps_its_shape(width: int, height: int) -> None:
    limits = ShownPixels()
    fitted = fitting_size((width, height), limits)
    assert limits.least <= fitted[0] * fitted[1]
    if max(width, height) <= 200 * min(width, height):
        assert fitted[0] * fitted[1] <= limits.most
        # A side is off by less than a pixel.
        assert abs(fitted[0] * height - fitted[1] * width) <= 2 * max(width, height)
    if limits.least <= width * height <= limits.most:
        assert fitted == (width, height)


@pytest.mark.parametrize(
    ("size", "fitted"),
    [((20, 10), (20, 10)), ((2, 2), (8, 8)), ((100, 25), (32, 8)), ((25, 100), (8, 32)), ((1000, 1), (256, 1))],
)
def test_sizes(size: tuple[int, int], fitted: tuple[int, int]) -> None:
    assert fitting_size(size, LIMITS) == fitted


def body_of(size: tuple[int, int]) -> ResponsesBody:
    image = InputImage(image_url=make_data_url(picture(size=size)))
    return ResponsesBody(input=[InputMessage(role="user", content=[image, InputText(text="What is it?")])])


def shown(message: dict[str, Any]) -> list[tuple[int, int]]:
    urls = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    return [Image.open(io.BytesIO(parse_data_url(url))).size for url in urls]


async def test_the_model_is_shown_scaled_pictures_and_tools_have_the_originals() -> None:
    turns = Says("", (cut(0.5),)), "done"
    played = await play(*turns, body=body_of((200, 50)), shown_pixels={"least": 64, "most": 256})
    _, second = played.requests
    assert shown(second["messages"][0]) == [(32, 8)]
    assert shown(second["messages"][-1]) == [(22, 11)]  # of 101x50, the half of the original
    assert (played.sizes(), played.texts()) == ([(22, 11)], ["from 99"])


async def test_a_picture_of_the_prompt_that_is_none_is_an_invalid_task() -> None:
    image = InputImage(image_url=make_data_url(b"\x89PNG\r\n\x1a\n broken"))
    body = ResponsesBody(input=[InputMessage(role="user", content=[image, InputText(text="What is it?")])])
    with pytest.raises(Exception, match="invalid_task"):
        await play("done", body=body, shown_pixels={})


@pytest.mark.parametrize(("counts", "ending"), [(False, "finished"), (True, "image_budget")])
async def test_pictures_of_the_prompt_may_count(*, counts: bool, ending: str) -> None:
    budgets = {"max_images": 1, "prompt_images_count": counts}
    played = await play(Says("", (cut(),)), "done", budgets=budgets)
    assert played.report.ending == ending
    assert (played.reply.metadata or {})["ending"] == ending


async def test_what_is_left_of_the_rollouts_tokens_bounds_each_answer_and_ends_it() -> None:
    first, second = (await play(Says("", (cut(),)), "done")).requests
    assert (first["max_tokens"], second["max_tokens"]) == (first["max_tokens"],) * 2
    played = await play(Says("", (cut(),)), "done", budgets={"max_response_tokens": 7})
    assert played.requests[0]["max_tokens"] == 7
    # The picture that came back is among what was used up.
    assert played.outcome == ("incomplete", "output_cap", "token_budget")
    cut_short = await play(Says("half of it", finish_reason="length"), budgets={"max_response_tokens": 1})
    assert cut_short.report.ending == "token_budget"


@pytest.mark.parametrize("explains", [False, True])
async def test_the_tasks_own_prompt_may_say_how_code_is_written(*, explains: bool) -> None:
    played = await play("<answer>1</answer>", dialect="code", explain_calls=explains, body=BODY)
    told = played.requests[0]["messages"][0]["content"]
    assert told == "Be brief."  # there is no tool `python` here
    tagged = await play("1", dialect="tagged_json", explain_calls=explains, body=BODY)
    assert ("# Tools" in tagged.requests[0]["messages"][0]["content"]) is explains
