"""The harness over its own routes, with real tools in a resources server and a scripted endpoint."""

import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from PIL import Image

from agent_servers.tool_agent.app import ToolAgent, ToolAgentConfig
from agent_servers.tool_agent.budgets import Ending
from gym_core.capture.images import make_data_url, parse_data_url
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputText,
    ResponsesBody,
    ResponsesReply,
)
from gym_core.types.session import AgentReport
from gym_core.types.wire import JsonObject
from tests.fakes.agents import POLICY, open_agent_server
from tests.fakes.model import Calls, Fault, Rule, Says, ScriptedEndpoint
from tests.fakes.tools import ToolHouse, tool_house
from tests.unit.opencode.pictures import picture

WIDE = picture(size=(20, 10))
BODY = ResponsesBody(
    input=[
        InputMessage(role="system", content="Be brief."),
        InputMessage(
            role="user", content=[InputImage(image_url=make_data_url(WIDE)), InputText(text="What is on the right?")]
        ),
    ]
)


def cut(left: float = 0.5, id_: str = "a") -> Calls:
    return Calls("cut", json.dumps({"left": left}), id_)


def script(*turns: Says | str) -> Rule:
    """By how often the assistant has spoken; the last one for ever."""

    def rule(messages: list[JsonObject]) -> Says | str:
        spoken = sum(1 for message in messages if message["role"] == "assistant")
        return turns[min(spoken, len(turns) - 1)]

    return rule


@dataclass
class Played:
    reply: ResponsesReply
    report: AgentReport
    requests: list[JsonObject]
    house: ToolHouse

    @property
    def outcome(self) -> tuple[str, str | None, str | None]:
        error = self.reply.error
        return self.reply.status, error.code if error else None, self.report.ending

    @property
    def outputs(self) -> list[FunctionCallOutput]:
        return [item for item in self.reply.output if isinstance(item, FunctionCallOutput)]

    def texts(self) -> list[str]:
        return [
            item.output
            if isinstance(item.output, str)
            else " ".join(part.text for part in item.output if isinstance(part, InputText))
            for item in self.outputs
        ]

    def sizes(self) -> list[tuple[int, int]]:
        return [Image.open(io.BytesIO(parse_data_url(i.image_url))).size for i in self.reply.images()]


@asynccontextmanager
async def playing(
    *turns: Says | str, body: ResponsesBody = BODY, faults: Sequence[Fault] = (), **config: Any
) -> AsyncIterator[Played]:
    settings = ToolAgentConfig.model_validate({"model_server": POLICY, "timeout_s": 20, **config})
    async with (
        tool_house() as house,
        ScriptedEndpoint(script(*turns)) as endpoint,
        open_agent_server(ToolAgent, settings, model_url=endpoint.url) as agent,
    ):
        endpoint.fail(*faults)
        agent.tools = [await house.seed()]
        await agent.open()
        reply = await agent.respond(body)
        yield Played(reply, await agent.close(), [seen.body for seen in endpoint.requests], house)


async def play(*turns: Says | str, **more: Any) -> Played:
    async with playing(*turns, **more) as played:
        return played


async def test_a_tools_picture_comes_into_the_conversation_and_the_trajectory() -> None:
    played = await play(Says("I look.", (cut(),)), "It is \\boxed{red}")
    assert played.outcome == ("completed", None, "finished")
    assert (played.sizes(), played.texts()) == ([(11, 10)], ["from 9"])
    assert [item.type for item in played.reply.output] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert played.reply.final_text == "It is \\boxed{red}"
    first, second = played.requests
    assert [tool["function"]["name"] for tool in first["tools"]][0] == "cut"
    assert second["messages"][: len(first["messages"])] == first["messages"]
    said, told, shown = second["messages"][len(first["messages"]) :]
    assert (said["role"], said["content"], said["tool_calls"][0]["id"]) == ("assistant", "I look.", "a")
    assert told == {"role": "tool", "tool_call_id": "a", "content": "from 9"}
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]
    assert (played.report.tool_calls, played.report.images_read, played.report.notes) == ({"cut": 1}, 1, [])
    assert played.reply.usage.output_tokens > 0


async def test_parallel_calls_run_in_the_models_order_and_are_all_answered() -> None:
    calls = (cut(0.5, "a"), Calls("refuse", "{}", "b"), cut(0.0, "c"))
    played = await play(Says("", calls), "done")
    assert [item.call_id for item in played.outputs] == ["call_0_0", "call_0_1", "call_0_2"]
    assert played.texts() == ["from 9", "Error: not today", "from 0"]
    assert [m.get("tool_call_id") for m in played.requests[1]["messages"][-4:]] == ["a", "b", "c", None]
    assert len(played.requests[1]["messages"][-1]["content"]) == 3


async def test_calls_that_the_endpoint_gives_one_id_are_told_apart_in_the_trajectory_and_go_back_as_they_came() -> None:
    played = await play(Says("", (cut(0.5, "a"), cut(0.0, "a"))), Says("", (Calls("refuse", "{}", "a"),)), "done")
    called = [item.call_id for item in played.reply.output if isinstance(item, FunctionCall)]
    assert called == [item.call_id for item in played.outputs] == ["call_0_0", "call_0_1", "call_1_0"]
    last = played.requests[-1]["messages"]
    assert [m["tool_call_id"] for m in last if m["role"] == "tool"] == ["a", "a", "a"]
    assert [call["id"] for m in last if m["role"] == "assistant" for call in m["tool_calls"]] == ["a", "a", "a"]


@pytest.mark.parametrize(
    ("call", "says", "echoed"),
    [
        (Calls("fly", "{}"), "Error: there is no tool 'fly'; there are: cut,", "{}"),
        (Calls("cut", '{"left":'), "Error: the arguments of cut do not fit: Invalid JSON", "{}"),
        (Calls("cut", "[1]"), "Error: the arguments of cut do not fit", "{}"),
        (Calls("cut", '{"left": 7}'), "left: Input should be less than or equal to 1", '{"left": 7}'),
    ],
)
async def test_a_bad_call_is_answered_and_the_loop_goes_on(call: Calls, says: str, echoed: str) -> None:
    played = await play(Says("", (call,)), "\\boxed{1}")
    assert played.outcome == ("completed", None, "finished")
    assert says in played.texts()[0].replace("body: ", "")
    assert "call_refused" in played.report.notes
    # Engines parse the arguments of earlier calls, and refuse a request whose are no object.
    assert played.requests[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"] == echoed
    (item,) = [item for item in played.reply.output if isinstance(item, FunctionCall)]
    assert item.arguments == call.arguments


async def test_a_name_that_is_no_tools_is_counted_as_unknown() -> None:
    played = await play(Says("", (Calls("fly-1", "{}"), Calls("fly-2", "{}"))), "done")
    assert played.report.tool_calls == {"unknown_tool": 2}


async def test_a_tool_may_end_the_episode() -> None:
    played = await play(Says("", (Calls("finish", "{}", "a"), cut(0.5, "b"))), "never")
    assert played.outcome == ("completed", None, "ended_by_tool")
    assert (len(played.requests), played.texts(), played.house.server.ran) == (1, ["bye"], [])


async def test_a_tool_that_breaks_masks_and_hands_over_what_was_seen() -> None:
    played = await play(Says("I look.", (cut(),)), Says("", (Calls("break", "{}"),)), "never")
    assert played.outcome == ("failed", "verifier_error", "tool_failed")
    assert (played.sizes(), len(played.requests)) == ([(11, 10)], 2)


@pytest.mark.parametrize(
    ("budgets", "ending", "n_requests", "ran"),
    [
        ({"max_turns": 1}, Ending.MAX_TURNS, 1, 0),
        ({"max_turns": 2}, Ending.MAX_TURNS, 2, 2),
        ({"max_turns": 2, "max_tool_calls": 3}, Ending.TOOL_BUDGET, 2, 2),
        ({"max_tool_calls": 1}, Ending.TOOL_BUDGET, 1, 0),
        ({"max_tool_calls": 3}, Ending.TOOL_BUDGET, 2, 2),
        ({"max_images": 1}, Ending.IMAGE_BUDGET, 1, 2),
        ({"max_image_pixels": 300}, Ending.IMAGE_BUDGET, 2, 3),
    ],
)
@pytest.mark.parametrize("forced", [False, True])
async def test_a_used_up_budget_ends_the_rollout_or_forces_an_answer(
    budgets: dict[str, int], ending: Ending, n_requests: int, ran: int, *, forced: bool
) -> None:
    turns = Says("", (cut(0.5, "a"), cut(0.5, "b")))

    def rule(messages: list[JsonObject]) -> Says | str:
        return "\\boxed{2}" if "without calling a tool" in json.dumps(messages) else turns

    settings = budgets | {"at_budget": "force_answer" if forced else "end"}
    config = ToolAgentConfig.model_validate({"model_server": POLICY, "timeout_s": 20, "budgets": settings})
    async with (
        tool_house() as house,
        ScriptedEndpoint(rule) as endpoint,
        open_agent_server(ToolAgent, config, model_url=endpoint.url) as agent,
    ):
        agent.tools = [await house.seed()]
        await agent.open()
        reply = await agent.respond(BODY)
        report = await agent.close()
        requests = [seen.body for seen in endpoint.requests]
    ran_last = 2 if ending is Ending.MAX_TURNS and not forced else 0
    assert (report.ending, house.server.ran) == (ending, ["cut"] * (ran + ran_last))
    if not forced:
        assert (reply.status, reply.error and reply.error.code) == ("incomplete", "no_final_answer")
        assert len(requests) == n_requests
        return
    assert (reply.status, reply.final_text, report.notes) == ("completed", "\\boxed{2}", ["forced_answer"])
    assert (len(requests), requests[-1]["tool_choice"]) == (n_requests + 1, "none")
    assert requests[-1]["tools"] == requests[0]["tools"]
    messages = requests[-1]["messages"]
    called = [call["id"] for m in messages if m["role"] == "assistant" for call in m["tool_calls"]]
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == called


async def test_calls_of_the_last_turn_run_and_are_recorded_before_the_rollout_ends() -> None:
    played = await play(Says("I look.", (cut(0.5, "a"), cut(0.0, "b"))), "never", budgets={"max_turns": 1})
    assert played.outcome == ("incomplete", "no_final_answer", "max_turns")
    assert (len(played.requests), played.texts(), played.sizes()) == (1, ["from 9", "from 0"], [(11, 10), (20, 10)])
    assert (played.report.tool_calls, played.report.images_read) == ({"cut": 2}, 2)


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        (Calls("finish", "{}"), ("completed", None, "ended_by_tool")),
        (Calls("break", "{}"), ("failed", "verifier_error", "tool_failed")),
        (cut(), ("incomplete", "no_final_answer", "image_budget")),
    ],
)
async def test_what_a_call_of_the_last_turn_does_counts(call: Calls, outcome: tuple[str, str | None, str]) -> None:
    played = await play(Says("", (call,)), budgets={"max_turns": 1, "max_images": 0})
    assert played.outcome == outcome


async def test_a_row_may_allow_fewer_calls_than_the_block() -> None:
    body = BODY.model_copy(update={"max_tool_calls": 0})
    played = await play(Says("", (cut(),)), body=body)
    assert played.outcome == ("incomplete", "no_final_answer", "tool_budget")


@pytest.mark.parametrize(
    ("turn", "outcome"),
    [
        (Says("half", finish_reason="length"), ("incomplete", "output_cap", "output_cap")),
        (Says("", (cut(),), finish_reason="length"), ("incomplete", "output_cap", "output_cap")),
        (Says("  "), ("incomplete", "no_final_answer", "empty_answer")),
        (Says("no", finish_reason="content_filter"), ("incomplete", "no_final_answer", "empty_answer")),
    ],
)
async def test_an_answer_that_is_none_is_the_models_doing(turn: Says, outcome: tuple[str, str, str]) -> None:
    played = await play(turn)
    assert (played.outcome, played.house.server.ran) == (outcome, [])


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.BAD_REQUEST, Fault.HTML, Fault.RESET])
async def test_an_endpoint_that_fails_masks(fault: Fault) -> None:
    played = await play("ok", faults=[fault])
    status, code, ending = played.outcome
    assert (status, ending) == ("failed", "endpoint_failed")
    assert code in ("model_unavailable", "transport_peer_drop")


async def test_the_time_limit_hands_over_what_was_seen() -> None:
    played = await play(Says("I look.", (cut(),)), "never", faults=[Fault.NONE, Fault.HANG], timeout_s=0.5)
    assert played.outcome == ("incomplete", "agent_timeout", "timeout")
    assert played.sizes() == [(11, 10)]


async def test_tools_of_the_row_itself_are_refused() -> None:
    async with (
        ScriptedEndpoint() as endpoint,
        open_agent_server(ToolAgent, ToolAgentConfig(model_server=POLICY), model_url=endpoint.url) as agent,
    ):
        await agent.open()
        reply = await agent.respond_raw(BODY.model_copy(update={"tools": [{"type": "function"}]}).model_dump_json())
        assert (reply.status_code, reply.json()["error"]["kind"]) == (422, "invalid_task")


async def test_without_tools_it_asks_once() -> None:
    async with (
        ScriptedEndpoint() as endpoint,
        open_agent_server(ToolAgent, ToolAgentConfig(model_server=POLICY), model_url=endpoint.url) as agent,
    ):
        await agent.open()
        reply = await agent.respond(BODY)
    assert (reply.final_text, "tools" in endpoint.requests[0].body) == ("ok", False)


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        ("tagged_json", '<tool_call>\n{"name": "cut", "arguments": {"left": 0.5}}\n</tool_call>'),
        ("tagged_xml", "<tool_call>\n<function=cut>\n<parameter=left>\n0.5\n</parameter>\n</function>\n</tool_call>"),
    ],
)
async def test_a_text_dialect_plays_the_same_tools(dialect: str, call: str) -> None:
    played = await play(f"I look.\n{call}", "It is \\boxed{red}", dialect=dialect)
    assert (played.outcome, played.sizes(), played.texts()) == (("completed", None, "finished"), [(11, 10)], ["from 9"])
    first, second = played.requests
    assert "tools" not in first
    assert first["messages"][0]["content"].startswith("Be brief.\n\n# Tools")
    said, told = second["messages"][-2:]
    assert said == {"role": "assistant", "content": f"I look.\n{call}"}
    assert [part["type"] for part in told["content"]] == ["text", "image_url", "text"]
    assert played.reply.output[0].type == "message"
    assert played.report.tool_calls == {"cut": 1}


async def test_what_stands_after_the_call_goes_back_as_it_was_and_is_no_answer() -> None:
    said = 'I look.\n<tool_call>{"name": "cut", "arguments": {"left": 0.5}}</tool_call>\nI saw blue. \\boxed{blue}'
    played = await play(said, "It is \\boxed{red}", dialect="tagged_json")
    assert played.requests[1]["messages"][-2] == {"role": "assistant", "content": said}
    assert (played.sizes(), played.reply.final_text) == ([(11, 10)], "It is \\boxed{red}")


async def test_an_odd_form_is_noted_and_a_bad_one_is_told() -> None:
    played = await play("<tool_call>cut(0.5)</tool_call>", "\\boxed{1}", dialect="tagged_json")
    assert played.outcome == ("completed", None, "finished")
    assert "no JSON" in played.texts()[0]
    assert played.report.notes == ["form:not_json", "call_refused"]
