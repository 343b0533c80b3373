"""The scripted policy's turns, as a function of the conversation alone."""

import json

import pytest

from agent_servers.tool_agent.dialects.code_blocks import CodeBlocks
from agent_servers.tool_agent.dialects.contract import ToolCall
from gym_core.servers.chat import SaidMessage
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn

TOOLS = frozenset({"bash", "edit", "glob", "grep", "read", "write"})
QUESTION = (
    "The picture is a grid of 7 rows and 7 columns. Every cell shows the same figure, except one cell whose figure is "
    "different. Which cell is it? Answer as (row,column), both counted from 1 starting at the top left."
)
CHOICES = "Which is it?\nChoices:\n(A) left\n(B) right"


def asked(question: str = QUESTION, *, path: str | None = "/workspace/puzzle.png") -> list[ChatMessage]:
    """What OpenCode sends first: a note on the file, the image, the prompt."""
    note = f'Called the Read tool with the following input: {{"filePath": {json.dumps(path)}}}'
    parts = [{"type": "text", "text": note}, {"type": "text", "text": "Image read successfully"}] if path else []
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [*parts, image, {"type": "text", "text": question}]
    return [
        ChatMessage(role="system", content="You are opencode."),
        ChatMessage.model_validate({"role": "user", "content": content}),
    ]


def ran(name: str, output: str, call_id: str = "call_1") -> list[ChatMessage]:
    call = {"id": call_id, "function": {"name": name, "arguments": "{}"}}
    return [
        ChatMessage.model_validate({"role": "assistant", "content": "I look.", "tool_calls": [call]}),
        ChatMessage(role="tool", content=output, tool_call_id=call_id),
    ]


def finding(answer: str, picture: str | None = None) -> str:
    return json.dumps({"answer": answer, "picture": picture})


def test_a_known_question_is_first_measured_with_a_program_on_the_named_file() -> None:
    turn = next_turn(asked(), TOOLS)
    [call] = turn.calls
    assert call.name == "bash"
    assert call.arguments["command"].startswith("python3 - <<'END_OF_PROGRAM'\n")
    assert "'/workspace/puzzle.png'" in call.arguments["command"]
    assert call.arguments["description"]
    assert turn.text


def test_a_picture_that_the_program_wrote_is_looked_at_next() -> None:
    turn = next_turn([*asked(), *ran("bash", finding("(2,3)", "/workspace/finding.png"))], TOOLS)
    assert [(call.name, call.arguments) for call in turn.calls] == [("read", {"filePath": "/workspace/finding.png"})]


def test_the_answer_is_what_the_program_printed() -> None:
    seen = [*asked(), *ran("bash", "a warning\n" + finding("(2,3)", "/workspace/finding.png") + "\n")]
    pictures = ChatMessage.model_validate(
        {"role": "user", "content": [{"type": "text", "text": "Attached media from tool result:"}]}
    )
    turn = next_turn([*seen, *ran("read", "Image read successfully", "call_2"), pictures], TOOLS)
    assert turn.calls == ()
    assert turn.text.endswith(r"\boxed{(2,3)}")


def test_without_a_picture_it_answers_at_once() -> None:
    turn = next_turn([*asked(), *ran("bash", finding("17"))], TOOLS)
    assert turn.calls == ()
    assert turn.text.endswith(r"\boxed{17}")


def test_without_a_read_tool_it_answers_at_once() -> None:
    turn = next_turn([*asked(), *ran("bash", finding("17", "/workspace/finding.png"))], {"bash"})
    assert turn.calls == ()


@pytest.mark.parametrize(
    "output", ["Traceback (most recent call last):\nValueError: no grid", "(no output)", "", '{"answer": 3}', "[]"]
)
def test_a_failed_program_ends_in_an_admitted_guess(output: str) -> None:
    turn = next_turn([*asked(), *ran("bash", output)], TOOLS)
    assert turn.calls == ()
    assert "guess" in turn.text
    assert turn.text.endswith(r"\boxed{1}")


def test_a_call_that_the_harness_refused_is_not_made_again() -> None:
    turn = next_turn([*asked(), *ran("invalid", "The arguments provided to the tool are invalid")], TOOLS)
    assert turn.calls == ()


@pytest.mark.parametrize("messages", [asked(CHOICES), asked(CHOICES, path=None)])
def test_an_unknown_question_gets_the_first_option_and_says_it_is_a_guess(messages: list[ChatMessage]) -> None:
    turn = next_turn(messages, TOOLS)
    assert turn.calls == ()
    assert "guess" in turn.text
    assert turn.text.endswith(r"\boxed{A}")


@pytest.mark.parametrize(
    ("messages", "tools"), [(asked(), frozenset()), (asked(path=None), TOOLS)], ids=["no tools", "no file path"]
)
def test_a_known_question_that_cannot_be_measured_is_guessed(
    messages: list[ChatMessage], tools: frozenset[str]
) -> None:
    turn = next_turn(messages, tools)
    assert turn.calls == ()
    assert turn.text.endswith(r"\boxed{1}")


@pytest.mark.parametrize("messages", [[], [ChatMessage(role="user", content="Is 3 equivalent to three?")]])
def test_a_chat_without_an_image_is_declined(messages: list[ChatMessage]) -> None:
    turn = next_turn(messages, frozenset())
    assert "cannot" in turn.text
    assert "boxed" not in turn.text


def test_a_new_question_in_the_same_conversation_starts_afresh() -> None:
    first = [*asked(), *ran("bash", finding("17")), ChatMessage(role="assistant", content=r"\boxed{17}")]
    assert [call.name for call in next_turn([*first, *asked()[1:]], TOOLS).calls] == ["bash"]


@pytest.mark.parametrize("path", ["/", "..", "x.png", "\0", "/workspace/\ud800.png"])
def test_an_odd_path_is_passed_on_as_it_is(path: str) -> None:
    [call] = next_turn(asked(path=path), TOOLS).calls
    assert ascii(path) in call.arguments["command"]


def test_a_question_cannot_break_out_of_the_program() -> None:
    nasty = QUESTION + "\nEND_OF_PROGRAM\nrm -rf / # \"'''\\"
    [call] = next_turn(asked(nasty, path="/work space/'\"\nEND_OF_PROGRAM\nx.png"), TOOLS).calls
    lines = call.arguments["command"].splitlines()
    assert [i for i, line in enumerate(lines) if line == "END_OF_PROGRAM"] == [len(lines) - 1]
    compile("\n".join(lines[1:-1]), "program", "exec")


def test_a_result_that_a_text_dialect_tells_in_a_user_message_is_no_new_question() -> None:
    told = ChatMessage(role="user", content=f"<tool_response>\n{finding('(2,3)')}\n</tool_response>")
    turn = next_turn([*asked(), ChatMessage(role="assistant", content="I look."), told], TOOLS)
    assert (turn.calls, turn.text.endswith("\\boxed{(2,3)}")) == ((), True)


IN_A_SESSION = "The image is in the session as `image_clue_0`. End with <answer>\\boxed{answer}</answer>.\n\n---\n\n"


def test_where_a_python_process_holds_the_image_the_program_is_a_block_of_code() -> None:
    turn = next_turn(asked(IN_A_SESSION + QUESTION, path=None), frozenset())
    assert turn.calls == ()
    action = CodeBlocks().read(SaidMessage(content=turn.text), [], turn=0)
    [call] = action.calls
    assert isinstance(call, ToolCall)
    assert call.name == "python"
    assert "image_clue_0.save(clue)" in call.arguments


def test_what_the_process_printed_is_the_answer_between_the_tags_that_were_asked_for() -> None:
    told = ChatMessage(role="user", content=f"<tool_response>\nText Result:\n{finding('(2,3)')}\n</tool_response>")
    turn = next_turn([*asked(IN_A_SESSION + QUESTION, path=None), told], frozenset())
    assert turn.text.endswith("<answer>\\boxed{(2,3)}</answer>")


def test_a_guess_stands_between_those_tags_too() -> None:
    assert next_turn(asked(IN_A_SESSION + CHOICES, path=None), frozenset()).text.endswith("<answer>\\boxed{A}</answer>")
