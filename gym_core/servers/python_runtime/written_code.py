"""Code as a trajectory has it: in the calls of the one tool, for grading that reads the trajectory alone."""

import json

from gym_core.types.responses import FunctionCall

TOOL_NAME, CODE_ARGUMENT = "python", "code"


def code_of(call: FunctionCall) -> str | None:
    """None where the arguments hold none, whatever the call's name."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    code = arguments.get(CODE_ARGUMENT) if isinstance(arguments, dict) else None
    return code if isinstance(code, str) else None
