"""From named rewards to the published one: a table worked by hand, and what is refused."""

import math

import numpy as np
import pytest
from pydantic import TypeAdapter

from resources_servers.benchmax.rewards import RewardRange, RewardRule, parts_by, read_rewards, total_of

A_B = {"a": 0.5, "b": 0.25}


@pytest.mark.parametrize(
    ("rewards", "rule", "range_", "parts", "total"),
    [
        (A_B, "sum", "mask", {"a": 0.5, "b": 0.25}, 0.75),
        (A_B, "a", "mask", {"a": 0.5}, 0.5),
        (A_B, "b", "mask", {"b": 0.25}, 0.25),
        (A_B, {"a": 0.8, "b": 0.4}, "mask", {"a": 0.4, "b": 0.1}, 0.5),
        (A_B, {"a": 1.0, "b": -2.0}, "mask", {"a": 0.5, "b": -0.5}, 0.0),
        (A_B, {"a": 4.0}, "clip", {"a": 2.0}, 1.0),
        (A_B, {"b": -4.0}, "clip", {"b": -1.0}, 0.0),
        ({"a": 1, "b": 0}, "sum", "mask", {"a": 1.0, "b": 0.0}, 1.0),
        ({"a": 1.0, "b": 0.2}, "sum", "clip", {"a": 1.0, "b": 0.2}, 1.0),
        ({"a": 0.1, "b": 0.2, "c": 0.7}, "sum", "mask", {"a": 0.1, "b": 0.2, "c": 0.7}, 1.0),
        ({"a": -1e-12}, "sum", "mask", {"a": -1e-12}, 0.0),
        ({"sum": 0.3, "b": 0.4}, "sum", "mask", {"sum": 0.3, "b": 0.4}, 0.7),
    ],
)
def test_the_reward_by_hand(
    rewards: dict[str, float], rule: RewardRule, range_: RewardRange, parts: dict[str, float], total: float
) -> None:
    found = parts_by(rule, read_rewards(rewards))
    assert found == pytest.approx(parts)
    assert total_of(found, range_=range_) == pytest.approx(total)
    assert 0 <= total_of(found, range_=range_) <= 1


@pytest.mark.parametrize("total", [1.2, -0.2])
def test_a_reward_out_of_range_is_a_mistake_that_says_what_to_do(total: float) -> None:
    with pytest.raises(ValueError, match=r"not in \[0, 1\].*reward_range: clip"):
        total_of({"a": total}, range_="mask")


def test_a_component_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"no 'c' among \['a', 'b'\]"):
        parts_by({"a": 1, "c": 1}, A_B)


@pytest.mark.parametrize(
    "found", [{"a": math.nan}, {"a": -math.inf}, {"a": False}, {"a": None}, {"a": "1"}, {1: 1.0}, {"": 1.0}, [], "a", 1]
)
def test_what_is_no_mapping_of_names_to_finite_numbers_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match=r"reward"):
        read_rewards(found)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.float32(1), r"1\.0 is a numpy.float32, and no int or float; write float\(\.\.\.\)"),
        (np.int64(1), r"1 is a numpy.int64"),
        ("0.5", "0.5 is a str, and no int or float$"),
        (10**4000, "an int of 13288 bits is no finite number"),
    ],
)
def test_a_number_of_another_make_is_named_as_what_it_is(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=f"reward 'a': {why}"):
        read_rewards({"a": value})


def test_a_float_of_numpys_is_one() -> None:
    assert read_rewards({"a": np.float64(0.5)}) == {"a": 0.5}


@pytest.mark.parametrize("rule", [{}, "", {"": 1.0}])
def test_a_rule_by_which_every_reward_would_be_0_is_refused(rule: object) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        TypeAdapter(RewardRule).validate_python(rule)


def test_none_is_no_reward() -> None:
    assert read_rewards(None) == {}
