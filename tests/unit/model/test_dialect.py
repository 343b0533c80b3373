"""Responses bodies as chat completions: turns, tools and pictures where a model expects them."""

import pytest

from gym_core.servers.model.answer import Answer
from gym_core.servers.model.dialect import chat_body, responses_reply
from gym_core.servers.model.messages import IssuedCall
from gym_core.types.responses import FunctionCall, OutputMessage, ReasoningItem, ResponsesBody
from gym_core.types.wire import JsonObject

PICTURE: JsonObject = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
CHAT_PICTURE: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def chat_messages(*items: JsonObject, **fields: object) -> list[JsonObject]:
    messages: list[JsonObject] = chat_body(ResponsesBody.model_validate({"input": list(items), **fields}))["messages"]
    return messages


def call(call_id: str) -> JsonObject:
    return {"type": "function_call", "call_id": call_id, "name": "zoom", "arguments": '{"x": 1.0}'}


def output(call_id: str, content: object) -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def test_reasoning_text_and_calls_that_follow_each_other_are_one_turn() -> None:
    reasoning: JsonObject = {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "hm"}]}
    said: JsonObject = {
        "type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "look"}],
    }  # fmt: skip
    messages = chat_messages(
        {"type": "message", "role": "user", "content": "q"}, reasoning, said, call("a"), call("b"),
        output("a", "1"), output("b", "2"), reasoning, said, instructions="be brief",
    )  # fmt: skip
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    turn = messages[2]
    assert (turn["reasoning_content"], turn["content"]) == ("hm", "look")
    assert [made["id"] for made in turn["tool_calls"]] == ["a", "b"]
    assert turn["tool_calls"][0]["function"] == {"name": "zoom", "arguments": '{"x": 1.0}'}


def test_pictures_of_tools_follow_all_tool_messages_of_the_turn() -> None:
    text: JsonObject = {"type": "input_text", "text": "seen"}
    messages = chat_messages(
        call("a"), call("b"), output("a", [text, PICTURE]), output("b", [PICTURE]),
        {"type": "message", "role": "user", "content": "next"},
    )  # fmt: skip
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user", "user"]
    assert [message["content"] for message in messages[1:3]] == ["seen", ""]
    assert messages[3]["content"][1:] == [CHAT_PICTURE, CHAT_PICTURE]


def test_a_users_picture_keeps_its_detail() -> None:
    parts = [{"type": "input_text", "text": "q"}, PICTURE | {"detail": "high"}]
    (message,) = chat_messages({"type": "message", "role": "user", "content": parts})
    assert message["content"][1] == {"type": "image_url", "image_url": CHAT_PICTURE["image_url"] | {"detail": "high"}}


def test_tools_choice_and_format_take_the_shape_of_chat() -> None:
    body = chat_body(
        ResponsesBody.model_validate(
            {
                "input": "q",
                "tools": [{"type": "function", "name": "zoom", "parameters": {"type": "object"}, "strict": None}],
                "tool_choice": {"type": "function", "name": "zoom"},
                "max_output_tokens": 9,
                "temperature": 0.5,
                "reasoning": {"effort": "low"},
                "text": {"format": {"type": "json_schema", "name": "verdict", "schema": {}}},
            }
        )
    )
    assert body["tools"] == [{"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "zoom"}}
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "verdict", "schema": {}}}
    assert (body["max_tokens"], body["temperature"], body["reasoning_effort"]) == (9, 0.5, "low")


def test_a_tool_that_chat_cannot_offer_is_refused() -> None:
    with pytest.raises(ValueError, match="web_search"):
        chat_body(ResponsesBody.model_validate({"input": "q", "tools": [{"type": "web_search"}]}))


@pytest.mark.parametrize(("finish", "status"), [("stop", "completed"), ("length", "incomplete")])
def test_an_answer_becomes_items_in_the_order_they_were_made(finish: str, status: str) -> None:
    answer = Answer(
        id="x", content="look", reasoning="hm", reasoning_field="reasoning", calls=(IssuedCall("a", "zoom", "{}"),),
        finish_reason=finish, input_tokens=3, output_tokens=4, has_usage=True, tokens=None, notes=(),
    )  # fmt: skip
    reply = responses_reply(answer, "policy")
    assert [type(item) for item in reply.output] == [ReasoningItem, OutputMessage, FunctionCall]
    assert (reply.status, reply.usage.total_tokens, reply.model) == (status, 7, "policy")
