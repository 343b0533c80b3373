"""What a trajectory did: its turns of code, and PyVision's word for how it ended. Read from the reply alone.

So a saved run is graded again without its code having run.
"""

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gym_core.errors import FailureKind
from gym_core.servers.python_runtime import TOOL_NAME, code_of
from gym_core.types.responses import FunctionCall, FunctionCallOutput, InputImage, InputPart, InputText, ResponsesReply
from resources_servers.pyvision.answer import Form, read_answer
from resources_servers.pyvision.observation import NOTHING, RAN, TROUBLED

ENDING = "ending"
"""Where a harness says in its reply's metadata how it ended."""

MAX_COMPARED_CHARS = 20_000
"""Longer programs are compared letter by letter: to read them takes its time."""


class EndReason(StrEnum):
    DONE = "DONE"
    OVER_LENGTH = "OVER_LENGTH"
    EXCEED_MAX_TURNS = "EXCEED_MAX_TURNS"
    EXCEED_MAX_IMAGE_NUM_32 = "EXCEED_MAX_IMAGE_NUM_32"
    """The published word; the number is the configuration's."""
    ERROR_IN_ACTION = "ERROR_IN_ACTION"
    """Neither code nor answer, an answer that was cut off or empty, or an action that failed."""


_OF_ENDING = {
    "max_turns": EndReason.EXCEED_MAX_TURNS,
    "tool_budget": EndReason.EXCEED_MAX_TURNS,
    "image_budget": EndReason.EXCEED_MAX_IMAGE_NUM_32,
    "token_budget": EndReason.OVER_LENGTH,
    FailureKind.CONTEXT_LIMIT.value: EndReason.OVER_LENGTH,
}
"""What `tool_agent` says, of what is no final answer; every other ending is an error in an action."""


@dataclass(frozen=True)
class CodeTurn:
    code: str
    ran: bool
    """False for a block that is none, and for code that was refused."""
    raised: bool
    """Or was stopped, by the time limit or by its process's end."""
    images: int
    said: bool
    """It printed something."""


@dataclass(frozen=True)
class ToolUse:
    """Counts of a rollout; columns of its row."""

    code_turns: int
    """Executed, those whose code raised included: n_tc."""
    code_turns_raised: int
    code_turns_distinct: int
    """Of the executed: the same program again is no other one."""
    code_turns_useful: int
    """Distinct ones that did not raise and gave a text or a picture."""
    format_failures: int
    """Actions that were not executed."""
    images_shown: int


def end_reason(reply: ResponsesReply) -> EndReason:
    """Of any reply that is graded or scored 0."""
    if reply.error is None and read_answer(reply.final_text).form is not Form.NONE:
        return EndReason.DONE
    ending = (reply.metadata or {}).get(ENDING) or (reply.error.code if reply.error else "")
    return _OF_ENDING.get(ending, EndReason.ERROR_IN_ACTION)


def tool_use(reply: ResponsesReply) -> ToolUse:
    turns = code_turns(reply)
    ran = [turn for turn in turns if turn.ran]
    first_of = {program: turn for turn in reversed(ran) for program in [_program(turn.code)]}
    useful = [turn for turn in first_of.values() if not turn.raised and (turn.said or turn.images)]
    return ToolUse(
        code_turns=len(ran),
        code_turns_raised=sum(turn.raised for turn in ran),
        code_turns_distinct=len(first_of),
        code_turns_useful=len(useful),
        format_failures=len(turns) - len(ran),
        images_shown=sum(turn.images for turn in ran),
    )


def code_turns(reply: ResponsesReply) -> list[CodeTurn]:
    """One for each call that was answered, in order: one that a budget kept from being run has no output."""
    outputs = {item.call_id: _parts(item) for item in reply.output if isinstance(item, FunctionCallOutput)}
    calls = [item for item in reply.output if isinstance(item, FunctionCall) and item.call_id in outputs]
    return [_turn(call, outputs[call.call_id]) for call in calls]


def _turn(call: FunctionCall, parts: Sequence[InputPart]) -> CodeTurn:
    text = "\n".join(part.text for part in parts if isinstance(part, InputText))
    head, _, printed = text.partition("\n")
    images = sum(isinstance(part, InputImage) for part in parts)
    ran = call.name == TOOL_NAME and head.startswith(RAN)
    return CodeTurn(_code_or_arguments(call), ran, raised=head == TROUBLED, images=images, said=_is_said(printed))


def _is_said(printed: str) -> bool:
    return bool(printed.strip()) and not printed.startswith(NOTHING)


def _parts(item: FunctionCallOutput) -> list[InputPart]:
    return [InputText(text=item.output)] if isinstance(item.output, str) else item.output


def _code_or_arguments(call: FunctionCall) -> str:
    code = code_of(call)
    return call.arguments if code is None else code


def _program(code: str) -> str:
    """The same for programs that differ in comments and white space alone."""
    if len(code) > MAX_COMPARED_CHARS:
        return code
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return " ".join(code.split())
