"""What a reply of the policy server says."""

import msgspec
import pytest

from gym_core.servers.chat import read_completion


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ({"arguments": '{"x": 1}'}, '{"x": 1}'),
        ({"arguments": {"x": 1}}, '{"x":1}'),
        ({"arguments": "null"}, "null"),
        ({"arguments": None}, ""),
        ({}, ""),
    ],
)
def test_a_calls_arguments_are_read_in_each_form_that_endpoints_write(function: dict[str, object], text: str) -> None:
    message = {"tool_calls": [{"function": {"name": "zoom", **function}}]}
    said = read_completion(200, msgspec.json.encode({"choices": [{"message": message}]})).said
    assert said.tool_calls is not None
    assert [call.function.arguments_text for call in said.tool_calls] == [text]
