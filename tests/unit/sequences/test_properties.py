"""Sessions of any shape, joined and checked against all pairs."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym_core.capture.sequences import join
from gym_core.types.wire import JsonObject
from tests.unit.sequences.engine import Recorded, Said, decode, picture, render, result, system, user
from tests.unit.sequences.reference import check

WORDS = st.sampled_from(["", "a", "ab", "a b"])
PICTURES = st.sampled_from(["red", "blue"])
TOOLS = '[{"name": "look"}]'


@st.composite
def answers(draw: st.DrawFn, number: int) -> Said:
    return Said(
        draw(WORDS),
        reasoning=draw(st.sampled_from(["", "", "hmm", "let me think"])),
        tool_ids=draw(st.sampled_from([(), (f"t{number}",)])),
        in_pairs=draw(st.booleans()),
        ends=draw(st.sampled_from([True, True, False])),
    )


@st.composite
def sessions(draw: st.DrawFn) -> Recorded:
    recorded = Recorded()
    asked: list[tuple[list[JsonObject], Said, str]] = []
    for number in range(draw(st.integers(1, 12))):
        messages, said, tools = draw(_requests(asked, number))
        prompt = render(messages, tools, with_reasoning=draw(st.sampled_from([True, True, True, False])))
        if draw(st.integers(0, 9)) == 0:
            prompt[draw(st.integers(0, len(prompt) - 1))] = 99
        outcome = draw(st.sampled_from(["whole"] * 8 + ["abandoned", "gap"]))
        facts: JsonObject = {}
        if outcome == "abandoned":
            facts = {"outcome": "abandoned", "answer": None, "gaps": None}
        elif outcome == "gap":
            facts = {"gaps": ["no_usage"]}
        recorded.ask(messages, said, tools=tools, prompt=prompt, **facts)
        asked.append((messages, said, tools))
    return recorded


@st.composite
def _requests(
    draw: st.DrawFn, asked: list[tuple[list[JsonObject], Said, str]], number: int
) -> tuple[list[JsonObject], Said, str]:
    kinds = ["new", "next", "next", "next", "next", "last", "last", "retry", "twin", "edit", "swap", "title"]
    kind = draw(st.sampled_from(kinds)) if asked else "new"
    said = draw(answers(number))
    if kind in ("new", "title"):
        start = [system(draw(st.sampled_from(["s", "helper"]))), user(draw(WORDS), picture(draw(PICTURES)))]
        return start, said, "[]" if kind == "title" else TOOLS
    messages, before, tools = asked[-1] if kind == "last" else draw(st.sampled_from(asked))
    if kind == "retry":
        return messages, said, tools
    if kind == "twin":  # the same words, cut or in other tokens
        twin = Said(before.content, before.reasoning, before.tool_ids, draw(st.booleans()), draw(st.booleans()))
        return messages, twin, tools
    echo = before.echo(**draw(st.sampled_from([{}, {}, {}, {"reasoning": ""}, {"content": before.content}])))
    later = [result(name, draw(WORDS)) for name in before.tool_ids] or [user(draw(WORDS))]
    if draw(st.integers(0, 3)) == 0:
        later.append(user("see", picture(draw(PICTURES))))
    longer = [*messages, echo, *later]
    if kind in ("edit", "swap"):
        at = draw(st.integers(0, len(longer) - 1))
        longer[at] = user("what", picture(draw(PICTURES))) if kind == "swap" else longer[at] | {"content": draw(WORDS)}
    return longer, said, tools if draw(st.integers(0, 9)) else "[]"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(sessions(), WORDS, st.booleans())
def test_any_session_is_joined_as_all_pairs_would(recorded: Recorded, final: str, with_decoder: bool) -> None:
    check(recorded.calls, join(recorded.calls, final_answer=final, decode=decode if with_decoder else None))


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(sessions(), WORDS, st.booleans())
def test_many_more_sessions_are(recorded: Recorded, final: str, with_decoder: bool) -> None:
    check(recorded.calls, join(recorded.calls, final_answer=final, decode=decode if with_decoder else None))
