"""Look up everybody who is asked for, in one turn, and add up what they owe."""

import re

from pydantic import BaseModel, ConfigDict, ValidationError

from model_servers.scripted_model.chat import ToolCall, Turn
from model_servers.scripted_model.players.contract import Player, View

_TOOL = "look_up"
_NAMES = re.compile(r"What do ([A-Z][A-Za-z, ]+) owe together")


class _Debt(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    owes: int


def _play(view: View) -> Turn:
    found = _NAMES.search(view.question)
    names = found[1].split(", ") if found else []
    if not view.results and _TOOL in view.tools:
        return Turn("I look up each of them.", tuple(ToolCall(_TOOL, {"name": name}) for name in names))
    return Turn(f"Together they owe \\boxed{{{sum(map(_owed, view.results))}}}")


def _guess(view: View) -> Turn:
    return Turn("I did not look anybody up. \\boxed{100}")


def _owed(result: str) -> int:
    try:
        return _Debt.model_validate_json(result).owes
    except ValidationError:
        return 0


LEDGER = Player("ledger", "The ledger says what people owe", _play, _guess)
