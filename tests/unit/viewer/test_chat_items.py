from gym_core.types.responses import FunctionCallOutput, InputImage, InputMessage, InputText
from gym_core.types.wire import JsonObject
from gym_core.viewer.chat_items import items_of_messages

PICTURE: JsonObject = {"type": "image_url", "image_url": {"url": "sha256:" + "a" * 64}}


def user(*parts: JsonObject) -> JsonObject:
    return {"role": "user", "content": list(parts)}


def test_pictures_that_a_harness_sends_on_belong_to_the_tools_output() -> None:
    sent_on = user({"type": "text", "text": "Attached media from tool result:"}, PICTURE)
    (output,) = items_of_messages([{"role": "tool", "tool_call_id": "c", "content": "read"}, sent_on])
    image = InputImage(image_url=PICTURE["image_url"]["url"])
    assert output == FunctionCallOutput(call_id="c", output=[InputText(text="read"), image])


def test_what_else_is_said_after_a_tool_stays_a_message() -> None:
    said = user({"type": "text", "text": "go on"}, PICTURE)
    items = items_of_messages([{"role": "tool", "tool_call_id": "c", "content": "read"}, said])
    assert [type(item) for item in items] == [FunctionCallOutput, InputMessage]
