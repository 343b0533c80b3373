"""A player written as it thinks: calls out, texts back, at last an answer. The conversation is replayed into it.

def count_things(question: str) -> Plan:
    (told,) = yield [ToolCall("components", {})]
    return number_in(told)
"""

from collections.abc import Callable, Generator

from model_servers.scripted_model.chat import ToolCall, Turn
from model_servers.scripted_model.players.contract import Player, View, guess

Plan = Generator[list[ToolCall], list[str], str]
"""Yields the calls of one turn, is sent their texts in order, returns the answer. Raises ValueError when it is lost."""


def planned_player(name: str, question: str, plan: Callable[[str], Plan], tools: frozenset[str]) -> Player:
    """A player of a plan that needs these tools; it guesses where the plan is lost."""

    def play(view: View) -> Turn:
        return _next_turn(plan(view.question), view)

    return Player(name, question, play, lambda view: guess(view.question, reason="I did not look."), tools)


def _next_turn(plan: Plan, view: View) -> Turn:
    told = list(view.results)
    try:
        calls = next(plan)
        while len(told) >= len(calls):
            texts, told = told[: len(calls)], told[len(calls) :]
            calls = plan.send(texts)
    except StopIteration as end:
        return Turn(f"By what the tools told me: \\boxed{{{end.value}}}")
    except (ValueError, IndexError) as error:
        return guess(view.question, reason=f"The tools did not tell me enough ({error}).")
    tools = ", ".join(dict.fromkeys(call.name for call in calls))
    return Turn(f"I ask {tools}.", tuple(calls))
