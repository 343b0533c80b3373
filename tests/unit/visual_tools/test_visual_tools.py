"""Native image tools as the config chooses them; the grader's columns; the scripted policy on the example rows."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from gym_core.capture.images import parse_data_url
from gym_core.config.roots import INSTALL_DIR
from gym_core.datasets.prepared import read_dataset
from gym_core.errors import FailureKind, InvalidTask
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ResponsesReply,
)
from gym_core.types.tool import ToolRequest
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn
from resources_servers.visual_tools.app import VisualToolsConfig, VisualToolsTask
from tests.unit.visual_tools.playing import graded_reply, make_server, seeded

EXAMPLE = INSTALL_DIR / "resources_servers/visual_tools/data/example.jsonl"
TASK: JsonObject = {"expected_answer": "4", "answer_kind": "int"}


async def graded(text: str, task: JsonObject, calls: Sequence[OutputItem] = ()) -> Verification:
    said = OutputMessage(id="m", content=[OutputText(text=text)])
    reply = ResponsesReply(id="r", created_at=0, status="completed", output=[*calls, said])
    return await graded_reply(reply, task)


def called(*names: str, arguments: str = "{}", told: str = "Done.") -> list[OutputItem]:
    asked = [FunctionCall(call_id=f"{name}{index}", name=name, arguments=arguments) for index, name in enumerate(names)]
    return [*asked, *(FunctionCallOutput(call_id=call.call_id, output=told) for call in asked)]


def test_the_config_chooses_tools_by_name_and_by_family_and_how_places_are_written() -> None:
    server = make_server(image_tools=["measurement", "crop"], coordinates="thousandths")
    access = server.tool_access(seeded(server, TASK))
    assert access is not None
    assert access.needs_images
    assert [f.name for f in access.functions] == ["measure_distance", "measure_angle", "measure_area", "crop"]
    assert access.functions[3].parameters["properties"]["box"]["items"]["maximum"] == 1000


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"image_tools": ["zooom"]}, "no image tool or family 'zooom'; families: geometry"),
        ({"image_tools": []}, "at least 1"),
        ({"coordinates": "percent"}, "'fraction', 'thousandths' or 'pixels'"),
    ],
)
def test_a_mistake_of_the_config_is_told_before_anything_starts(config: JsonObject, message: str) -> None:
    with pytest.raises(ValidationError) as told:
        VisualToolsConfig.model_validate(config)
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("text", "task", "reward"),
    [
        ("\\boxed{4}", TASK, 1.0),
        ("\\boxed{four}", TASK, 1.0),
        ("\\boxed{5}", TASK, 0.0),
        ("\\boxed{B}", {"expected_answer": "B", "options": ["3", "4"]}, 1.0),
        ("\\boxed{4}", {"expected_answer": "B", "options": ["3", "4"]}, 1.0),
    ],
)
async def test_an_answer_is_compared_by_its_kind(text: str, task: JsonObject, reward: float) -> None:
    assert (await graded(text, task)).reward == reward


async def test_no_answer_scores_zero_and_says_so() -> None:
    verification = await graded("I cannot tell.", TASK)
    assert verification.reward == 0.0
    assert verification.failure is not None
    assert verification.failure.kind is FailureKind.NO_FINAL_ANSWER


async def test_the_chain_of_calls_is_told_and_compared_with_a_reference() -> None:
    task = {**TASK, "reference_chain": ["crop", "sharpen"]}
    columns = (await graded("\\boxed{4}", task, called("sharpen", "crop", "crop"))).details
    assert columns["tool_chain"] == ["sharpen", "crop", "crop"]
    assert columns["distinct_tools"] == 2
    assert (columns["chain_overlap"], columns["chain_order"], columns["chain_redundant"]) == (0.8, 0.4, 1)
    assert "chain_overlap" not in (await graded("\\boxed{4}", TASK, called("crop"))).details


async def test_calls_that_never_ran_are_no_part_of_the_chain() -> None:
    calls = [
        *called("crop"),
        *called("fly-1", "fly-2", told="Error: there is no tool 'fly-1'; there are: crop"),
        *called("unknown_tool", told="Error: the call names no tool."),
        *called(*["crop"] * 100, told="Error: the tool calls are used up. Answer now, without calling a tool."),
        FunctionCall(call_id="unanswered", name="crop", arguments="{}"),
    ]
    task = {**TASK, "reference_chain": ["crop"]}
    columns = (await graded("\\boxed{4}", task, calls)).details
    assert (columns["tool_chain"], columns["distinct_tools"]) == (["crop"], 1)
    assert (columns["chain_calls"], columns["chain_order"], columns["chain_redundant"]) == (1, 1.0, 0)


async def test_the_same_tool_with_the_same_arguments_is_a_duplicate() -> None:
    calls = [
        *called("crop", "crop", arguments='{"box": [0, 0, 1, 1], "image": 0}'),
        *called("crop", arguments='{"image":0,"box":[0,0,1,1]}'),
        *called("zoom", arguments='{"image":0,"box":[0,0,1,1]}'),
        *called("crop", arguments='{"image": 1, "box": [0, 0, 1, 1]}'),
    ]
    columns = (await graded("\\boxed{4}", TASK, calls)).details
    assert (columns["chain_calls"], columns["chain_distinct"], columns["chain_duplicates"]) == (5, 3, 2)


async def test_the_scripted_policy_solves_the_example_rows_by_their_tool(tmp_path: Path) -> None:
    server = make_server(image_tools=["count_color"])
    rows = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    for row in rows:
        image, question = row["responses_create_params"]["input"][0]["content"]
        session = seeded(server, {name: row[name] for name in ("expected_answer", "answer_kind")})
        session.shelf.put_prompt(0, parse_data_url(image["image_url"]))
        asked = ChatMessage.model_validate({"role": "user", "content": [{"type": "text", "text": question["text"]}]})
        (call,) = next_turn([asked], {"count_color"}).calls
        request = ToolRequest(call_id="c", name=call.name, arguments=json.dumps(call.arguments))
        picture, told = (await server.call_tool(session, request)).content
        assert isinstance(picture, InputImage)
        assert isinstance(told, InputText)
        said = next_turn([asked, ChatMessage(role="tool", content=told.text)], {"count_color"}).text
        assert (await graded(said, TASK | {"expected_answer": row["expected_answer"]})).reward == 1.0


@pytest.mark.parametrize(
    "row",
    [
        {"roi": [[40, 40, 80, 80]]},
        {"roi": [[0.1, 0.1, 0.2, 1.2]]},
        {"roi": [[40, 40, 80, 130]], "image_size": [100, 100]},
        {"roi": [[1e9, 0, 2e9, 10]], "image_size": [100, 100]},
    ],
)
def test_a_row_whose_evidence_is_not_on_the_image_is_refused(row: JsonObject) -> None:
    with pytest.raises(InvalidTask, match="reaches outside of the image"):
        seeded(make_server(), TASK | row)


def test_the_example_rows_are_tasks(tmp_path: Path) -> None:
    copied = tmp_path / "example.jsonl"
    copied.write_text(EXAMPLE.read_text())
    assert len([VisualToolsTask.model_validate(task.task_data) for task in read_dataset(copied)]) == 4
