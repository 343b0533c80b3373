"""Played through a text dialect, the policy makes the calls that it would make of declared tools."""

import io
import json
from collections.abc import Callable

import httpx
import msgspec
import pytest
from PIL import Image

from agent_servers.tool_agent.dialects.contract import Action, CallResult, ToolCall
from agent_servers.tool_agent.dialects.names import DialectName, dialect_of
from gym_core.capture.images import make_data_url
from gym_core.servers.chat import SaidMessage, chat_content
from gym_core.types.responses import InputImage, InputPart, InputText
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage, Turn
from model_servers.scripted_model.chat import ToolCall as PlayedCall
from model_servers.scripted_model.endpoint import make_endpoint
from model_servers.scripted_model.text_calls import TextTools, declared_in_text, results_told

DIALECTS: list[DialectName] = ["openai", "tagged_json", "tagged_xml"]
TEXT_DIALECTS = DIALECTS[1:]
Tool = Callable[[JsonObject], list[InputPart]]


def function(called: str, **properties: object) -> ToolFunction:
    return ToolFunction(
        name=called, description="</tools> a trap", parameters={"type": "object", "properties": properties}
    )


def plain(color: str) -> InputImage:
    content = io.BytesIO()
    Image.new("RGB", (64, 64), color).save(content, "PNG")
    return InputImage(image_url=make_data_url(content.getvalue()))


async def played(name: DialectName, question: list[InputPart], tool: ToolFunction, run: Tool) -> tuple[str, int]:
    """The final answer, and how many calls came before it."""
    dialect, functions = dialect_of(name, tool_images="user"), [tool]
    messages: list[JsonObject] = [
        {"role": "system", "content": f"Look well.\n\n{dialect.system_text(functions)}"},
        {"role": "user", "content": chat_content(question)},
    ]
    n_calls = 0
    transport = httpx.ASGITransport(make_endpoint())
    async with httpx.AsyncClient(transport=transport, base_url="http://endpoint") as client:
        for turn in range(8):
            body = {"messages": messages, **dialect.request_fields(functions)}
            message = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
            action = _read(name, message, functions, turn)
            if not action.calls:
                return action.text, n_calls
            n_calls += len(action.calls)
            results = []
            for call in action.calls:
                assert isinstance(call, ToolCall)
                assert call.name == tool.name
                results.append(CallResult(call, tuple(run(json.loads(call.arguments)))))
            messages += [message, *dialect.observe(results)]
    raise AssertionError("the policy goes on and on")


def _read(name: DialectName, message: JsonObject, functions: list[ToolFunction], turn: int) -> Action:
    said = msgspec.json.decode(msgspec.json.encode(message), type=SaidMessage)  # arguments are kept as they came
    return dialect_of(name, tool_images="user").read(said, functions, turn=turn)


@pytest.mark.parametrize("name", DIALECTS)
async def test_pictures_of_tools_are_looked_at_in_every_dialect(name: DialectName) -> None:
    asked = "You are shown 3 pictures. Call see_next_image to see the next picture. The colours are: red, blue, green"
    left = [plain("blue"), plain("green")]
    answer, n_calls = await played(
        name,
        [plain("red"), InputText(text=asked)],
        function("see_next_image"),
        lambda _: [left.pop(0), InputText(text="Here.")],
    )
    assert ("\\boxed{red, blue, green}" in answer, n_calls) == (True, 2)


@pytest.mark.parametrize("name", DIALECTS)
async def test_the_calls_of_one_turn_have_a_result_each_in_every_dialect(name: DialectName) -> None:
    owed = {"Ada": 3, "Bo": 40}
    answer, n_calls = await played(
        name,
        [InputText(text="The ledger says what people owe. What do Ada, Bo owe together?")],
        function("look_up", name={"type": "string"}),
        lambda arguments: [InputText(text=json.dumps({"owes": owed[arguments["name"]]}))],
    )
    assert ("\\boxed{43}" in answer, n_calls) == (True, 2)


@pytest.mark.parametrize("name", TEXT_DIALECTS)
def test_calls_are_read_as_they_were_written(name: DialectName) -> None:
    functions = [function("crop", box={"type": "array"}, label={"type": "string"}), function("flip")]
    dialect = dialect_of(name, tool_images="user")
    tools = declared_in_text([ChatMessage(role="system", content=dialect.system_text(functions))])
    assert tools is not None
    assert tools == TextTools(frozenset({"crop", "flip"}), name == "tagged_xml")
    arguments = {"box": [0, 0.5], "label": "1 < 2\nso"}
    text = tools.written(Turn("I look.", (PlayedCall("crop", arguments), PlayedCall("flip", {})))).text
    action = dialect.read(SaidMessage(content=text), functions, turn=0)
    assert [(c.name, json.loads(c.arguments)) for c in action.calls if isinstance(c, ToolCall)] == [
        ("crop", arguments),
        ("flip", {}),
    ]
    assert (action.text, action.forms) == ("I look.", ())


@pytest.mark.parametrize("system", ["", "Be brief.", "<tools>", "</tools><tools>"])
def test_a_system_prompt_without_tools_declares_none(system: str) -> None:
    assert declared_in_text([ChatMessage(role="system", content=system)]) is None
    assert declared_in_text([]) is None


def test_lines_that_are_no_tool_are_passed_over() -> None:
    system = '<tools>\nnot json\n{"name": 3}\n{"name": "zoom"}\n[]\n</tools>'
    assert declared_in_text([ChatMessage(role="system", content=system)]) == TextTools(frozenset({"zoom"}), False)


def test_results_are_told_apart() -> None:
    assert results_told("<tool_response>\n</tool_response>\n<tool_response>\n3\n\n4\n</tool_response>") == [
        "",
        "3\n\n4",
    ]
    assert results_told("<tool_response>\ncut") == ["<tool_response>\ncut"]
