import json

from agent_servers.opencode_agent.journal import Journal, read_events, read_export
from agent_servers.opencode_agent.transcript import Transcript, make_transcript
from gym_core.types.responses import FunctionCall, FunctionCallOutput, InputImage, InputMessage, ResponsesReply
from gym_core.types.wire import JsonObject
from tests.fakes.opencode import recorded
from tests.unit.opencode.pictures import data_url, picture


def transcript(name: str) -> Transcript:
    return make_transcript(read_events(recorded(name).events))


def reply(found: Transcript) -> ResponsesReply:
    return ResponsesReply(id="r", created_at=0, status="completed", output=list(found.items))


def journal_of(*parts: JsonObject) -> Journal:
    lines = [
        json.dumps({"type": "x", "part": {"id": f"p{n}", "messageID": "m", **part}}) for n, part in enumerate(parts)
    ]
    return read_events("".join(f"{line}\n" for line in lines).encode())


def read_call(*attachments: JsonObject) -> JsonObject:
    state = {"status": "completed", "input": {}, "output": "read", "attachments": list(attachments)}
    return {"type": "tool", "tool": "read", "callID": "c1", "state": state}


def test_an_image_that_read_returned_is_an_image_part_of_the_calls_output() -> None:
    found = transcript("normal")
    outputs = [item for item in found.items if isinstance(item, FunctionCallOutput)]
    assert outputs[0].output == "(64, 48) (64, 48)\n"
    assert isinstance(outputs[1].output, list)
    assert [part.type for part in outputs[1].output] == ["input_text", "input_image"]
    assert [image.image_url[:22] for image in reply(found).images()] == ["data:image/png;base64,"]
    assert (found.images_read, found.tool_calls) == (1, {"bash": 1, "read": 1})


def test_calls_and_outputs_pair_up_and_the_final_text_is_the_last_messages() -> None:
    for name in ("normal", "thinking", "parallel_reads", "bad_calls"):
        found = transcript(name)
        calls = [item.call_id for item in found.items if isinstance(item, FunctionCall)]
        outputs = [item.call_id for item in found.items if isinstance(item, FunctionCallOutput)]
        assert calls == outputs, name
        assert "\\boxed{" in reply(found).final_text, name
        assert not found.notes, name


def test_parallel_calls_come_before_their_outputs() -> None:
    kinds = [item.type for item in transcript("parallel_reads").items]
    call, output = "function_call", "function_call_output"
    assert kinds == ["message", call, call, call, output, output, output, call, output, "message"]
    assert len(list(reply(transcript("parallel_reads")).images())) == 3


def test_reasoning_keeps_its_white_space() -> None:
    thoughts = [item.content[0].text for item in transcript("thinking").items if item.type == "reasoning"]
    assert thoughts[0] == "  think one\n\nthink more "


def test_failed_calls_keep_their_error_and_names_are_as_opencode_ran_them() -> None:
    found = transcript("bad_calls")
    assert found.tool_calls == {"bash": 6, "invalid": 3}
    errors = [item.output for item in found.items if isinstance(item, FunctionCallOutput)]
    assert any("SchemaError(Missing key" in str(error) for error in errors)


def test_the_call_that_was_running_at_a_kill_has_no_output() -> None:
    export = read_export(recorded("killed_in_bash").export or b"")
    assert export is not None
    call = make_transcript(export).items[-1]
    assert isinstance(call, FunctionCall)
    assert (call.status, json.loads(call.arguments)["command"]) == ("incomplete", "sleep 987 | cat")


def test_usage_is_summed_over_the_steps() -> None:
    usage = transcript("normal").usage
    assert (usage.input_tokens, usage.output_tokens) == (5545 + 5673 + 5847, 60)
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def test_impossible_token_counts_are_nothing() -> None:
    found = make_transcript(journal_of({"type": "step-finish", "tokens": {"input": -5, "output": 1e300}}))
    assert found.usage.total_tokens == 0


def test_unknown_parts_are_skipped_and_noted() -> None:
    found = make_transcript(journal_of({"type": "hologram"}, {"type": "text", "text": "hi"}))
    assert (len(found.items), found.notes) == (1, ["unknown_part"])


def test_a_bad_image_is_left_out_and_noted() -> None:
    bad = {"mime": "image/png", "url": "data:image/png;base64,bm90IGFuIGltYWdl"}
    remote = {"mime": "image/png", "url": "http://example.com/a.png"}
    good = {"mime": "image/png", "url": data_url(picture())}
    found = make_transcript(journal_of(read_call(bad, remote, good, {"mime": "application/pdf", "url": "data:,"})))
    assert found.images_read == 1
    assert sorted(found.notes) == ["attachment_dropped", "unreadable_image"]
    assert list(reply(found).images()) == [InputImage(image_url=good["url"])]


def test_several_text_parts_of_one_message_are_one_message() -> None:
    found = make_transcript(journal_of({"type": "text", "text": "The answer "}, {"type": "text", "text": "is 3"}))
    assert reply(found).final_text == "The answer is 3"


def test_a_user_turn_that_opencode_made_up_is_labelled() -> None:
    found = make_transcript(journal_of({"type": "text", "text": "Continue ...", "synthetic": True}))
    assert (found.items, found.notes) == ([InputMessage(role="user", content="Continue ...")], ["made_up_user_message"])


def test_a_sandbox_cannot_swell_the_report() -> None:
    calls = [{"type": "tool", "tool": f"{n}" + "x" * 1000, "callID": str(n)} for n in range(500)]
    tools = make_transcript(journal_of(*calls)).tool_calls
    assert (len(tools), max(map(len, tools))) == (32, 64)
