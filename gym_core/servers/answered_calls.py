"""Calls of a trajectory with what they gave: what an environment counts, and finds looks in."""

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gym_core.types.responses import FunctionCall, FunctionCallOutput, InputImage, InputText, OutputItem
from gym_core.types.tool import REFUSED
from gym_core.types.wire import JsonObject


@dataclass(frozen=True)
class AnsweredCall:
    call: FunctionCall
    result: FunctionCallOutput

    @property
    def has_picture(self) -> bool:
        output = self.result.output
        return not isinstance(output, str) and any(isinstance(part, InputImage) for part in output)

    @property
    def ran(self) -> bool:
        """It was not refused: for its name, its arguments, a budget, or by its tool."""
        return self.has_picture or not self.told.startswith(REFUSED)

    @property
    def told(self) -> str:
        """The words of the result."""
        output = self.result.output
        if isinstance(output, str):
            return output
        return "\n".join(part.text for part in output if isinstance(part, InputText))

    def arguments(self) -> JsonObject:
        """{} for what is no JSON object."""
        try:
            found = json.loads(self.call.arguments or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def answered_calls(output: Iterable[OutputItem]) -> Iterator[AnsweredCall]:
    """In the order of their results; a call without one is left out.

    Of several calls with one id, which endpoints give, a result is the first one's that has none yet.
    """
    waiting: defaultdict[str, deque[FunctionCall]] = defaultdict(deque)
    for item in output:
        if isinstance(item, FunctionCall):
            waiting[item.call_id].append(item)
        elif isinstance(item, FunctionCallOutput) and waiting[item.call_id]:
            yield AnsweredCall(waiting[item.call_id].popleft(), item)
