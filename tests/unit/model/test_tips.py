"""Which ids a request goes on from."""

import json

import numpy as np
import pytest

from gym_core.capture.recorder import CallTokens
from gym_core.servers.model.splice import CannotSplice
from gym_core.servers.model.tips import Tips
from gym_core.types.model_call import CallAnswer
from gym_core.types.wire import JsonObject

TOOLS = b'[{"type":"function"}]'


def said(role: str, content: str, **fields: object) -> bytes:
    message: JsonObject = {"role": role, "content": content, **fields}
    return json.dumps(message).encode()


def answer(text: str) -> CallAnswer:
    return CallAnswer(content=text, reasoning="", tool_calls=[], finish_reason="stop", input_tokens=2, output_tokens=1)


def tokens(*sampled: int) -> CallTokens:
    return CallTokens(np.array([7, 7], np.int32), np.array(sampled, np.int32), None)


ASKED = [said("system", "be brief"), said("user", "look")]
NEXT = [*ASKED, said("assistant", "a dog"), said("user", "sure?")]


def why(tips: Tips, messages: list[bytes], tools: bytes = TOOLS) -> str:
    with pytest.raises(CannotSplice) as failure:
        tips.find(messages, tools)
    return failure.value.why


def test_a_request_goes_on_from_the_call_whose_answer_it_holds() -> None:
    tips = Tips()
    tips.add("c1", ASKED, TOOLS, answer("a cat"), tokens(1))
    tips.add("c2", ASKED, TOOLS, answer("a dog"), tokens(2))
    tip = tips.find(NEXT, TOOLS)
    assert tip is not None
    assert (tip.n_messages, tip.seen.tolist()) == (3, [7, 7, 2])


def test_a_first_request_goes_on_from_nothing() -> None:
    assert Tips().find(ASKED, TOOLS) is None


def test_of_two_answers_with_the_same_words_the_later_one_counts() -> None:
    tips = Tips()
    for sampled in (1, 2):
        tips.add(f"c{sampled}", ASKED, TOOLS, answer("a dog"), tokens(sampled))
    tip = tips.find(NEXT, TOOLS)
    assert tip is not None
    assert tip.seen[-1] == 2


def test_why_there_is_nothing_to_go_on_from() -> None:
    tips = Tips()
    assert why(tips, NEXT) == "history_unknown"
    tips.add("c1", ASKED, TOOLS, answer("a dog"), None)
    assert why(tips, NEXT) == "parent_without_ids"
    assert why(tips, NEXT[:3]) == "nothing_added"
    assert why(tips, NEXT, b"[]") == "system_or_tools_changed"
    assert why(tips, [said("system", "be long"), *NEXT[1:]]) == "system_or_tools_changed"


def test_the_ids_that_were_not_used_longest_are_forgotten_first() -> None:
    tips = Tips(max_bytes=2 * tokens(1).prompt_ids.nbytes + 2 * tokens(1).ids_S.nbytes)
    other = [said("user", "count")]
    tips.add("c1", ASKED, TOOLS, answer("a dog"), tokens(1))
    tips.add("c2", other, TOOLS, answer("two"), tokens(2))
    assert tips.find(NEXT, TOOLS) is not None
    tips.add("c3", [said("user", "third")], TOOLS, answer("three"), tokens(3))
    assert tips.find(NEXT, TOOLS) is not None
    assert why(tips, [*other, said("assistant", "two"), said("user", "sure?")]) == "parent_forgotten"
