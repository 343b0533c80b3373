"""What a trajectory shows of the one action: whether it could be read, what came of it, where it focused. Pure."""

import ast
import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from gym_core.servers.python_runtime import TOOL_NAME, code_of
from gym_core.statistics.regions import Region
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    OutputMessage,
    ResponsesReply,
)
from resources_servers.chart_focus.answers import FINAL_ANSWER
from resources_servers.chart_focus.focus_tools import find_alike
from resources_servers.chart_focus.task import Axis, ChartTask

RAN = "OBSERVATION: the code ran. The edited image:"
"""How the observation of an action that worked begins; it comes from us, never from the model's code."""
MAX_CODE_CHARS = 20_000
"""Longer code is not looked at, and counts as code without a listed function."""


MAX_REGIONS = 200
"""Of one action; the rest are not looked at."""


class ParseOutcome(StrEnum):
    OK = "ok"
    NO_TOOL = "no_tool"
    """No block that the agent takes for code: a fence without `python` is none."""
    UNKNOWN = "unknown"
    """A block that is not closed, is empty, or is no Python."""


class ToolFlag(IntEnum):
    FAILED = -10
    """It could not be read, it raised, or it displayed no image."""
    UNLISTED = -1
    """The code ran, without any function of the list."""
    NO_TOOL = 0
    USED = 1
    """The code ran, and calls a function of the list by its own name, in a part that was not reached too: nobody but
    the code itself could tell."""


@dataclass(frozen=True)
class Played:
    """The first action counts: there may be one."""

    parse: ParseOutcome
    flag: ToolFlag
    actions: int
    """Messages with a block of code, those that were not run included."""
    focused: tuple[Region, ...]
    """What an action that worked focused on, in pixels; names that stand in no plain list are not known."""
    answered_early: bool
    """A final answer stands in the message of the action already, before the edited image was seen."""


def read_trajectory(task: ChartTask, response: ResponsesReply) -> Played:
    calls = [item for item in response.output if isinstance(item, FunctionCall)]
    if not calls:
        return Played(ParseOutcome.NO_TOOL, ToolFlag.NO_TOOL, 0, (), answered_early=False)
    module = _parsed(_code(calls[0]))
    parse = ParseOutcome.UNKNOWN if module is None else ParseOutcome.OK
    flag, focused = ToolFlag.FAILED, tuple[Region, ...]()
    if module is not None and _worked(calls[0], response):
        used = list(_focus_calls(module, task))
        flag = ToolFlag.USED if used else ToolFlag.UNLISTED
        focused = tuple(itertools.islice(_regions(module, used, task), MAX_REGIONS))
    return Played(parse, flag, len(calls), focused, _answers_before(calls[0], response))


def _code(call: FunctionCall) -> str | None:
    """None where it was no call of the code tool."""
    code = code_of(call) if call.name == TOOL_NAME else None
    return code if code and code.strip() else None


def _parsed(code: str | None) -> ast.Module | None:
    """None for what is no Python; an empty module for what is too long to be looked at."""
    if code is None:
        return None
    if len(code) > MAX_CODE_CHARS:
        return ast.Module(body=[], type_ignores=[])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _worked(call: FunctionCall, response: ResponsesReply) -> bool:
    for item in response.output:
        if isinstance(item, FunctionCallOutput) and item.call_id == call.call_id and isinstance(item.output, list):
            first = item.output[0] if item.output else None
            said = isinstance(first, InputText) and first.text.startswith(RAN)
            return said and any(isinstance(part, InputImage) for part in item.output)
    return False


def _answers_before(call: FunctionCall, response: ResponsesReply) -> bool:
    before = response.output[: response.output.index(call)]
    return any(FINAL_ANSWER.search(item.text) for item in before if isinstance(item, OutputMessage))


# -- where ------------------------------------------------------------------


@dataclass(frozen=True)
class _FocusCall:
    axis: Axis
    names: ast.expr | None


def _focus_calls(module: ast.Module, task: ChartTask) -> Iterator[_FocusCall]:
    """Calls of functions of the list, by their names, in the order of the code."""
    tools = task.listed_tools
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        assert isinstance(call.func, ast.Name)
        if axis := tools.get(call.func.id):
            by_keyword = next((word.value for word in call.keywords if word.arg == "names"), None)
            yield _FocusCall(axis, call.args[1] if len(call.args) > 1 else by_keyword)


def _regions(module: ast.Module, calls: Sequence[_FocusCall], task: ChartTask) -> Iterator[Region]:
    """Call by call; of a table where columns and rows are in focus: the cells where they cross."""
    assigned = {
        target.id: node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: list[tuple[Axis, Region]] = []
    for call in calls:
        written = assigned.get(call.names.id) if isinstance(call.names, ast.Name) else call.names
        found += [(call.axis, region) for region in _boxes_of(call.axis, _literal_names(written), task)]
        if len(found) > MAX_REGIONS:
            break
    columns = [region for axis, region in found if axis == "columns"]
    rows = [region for axis, region in found if axis == "rows"]
    if not columns or not rows:
        yield from (region for _, region in found)
    for row, column in itertools.product(rows, columns):
        if row.overlap(column):
            yield Region(column.x0, row.y0, column.x1, row.y1)


def _boxes_of(axis: Axis, names: Sequence[str], task: ChartTask) -> Iterator[Region]:
    boxes = task.boxes.get(axis, {})
    for name in names:
        known = find_alike(name, boxes) if axis == "y_values" else name
        if known in boxes:
            yield Region(*boxes[known])


def _literal_names(written: ast.expr | None) -> list[str]:
    """As the functions read them: a text is one name, and what is no text counts as its words."""
    try:
        found = ast.literal_eval(written) if written is not None else []
        if isinstance(found, str):
            return [found]
        return list(dict.fromkeys(map(str, found))) if isinstance(found, (list, tuple, set)) else []
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # ValueError: an integer of 5000 digits
        return []
