"""A grade: its reward, and what a trainer is given beside it."""

import math

import pytest
from pydantic import ValidationError

from gym_core.errors import FailureKind
from gym_core.types.verification import MAX_TERMS, Failure, Verification
from gym_core.types.wire import JsonObject

DOWN = Failure(kind=FailureKind.JUDGE_FAILED, reason="down")
LATE = Failure(kind=FailureKind.AGENT_TIMEOUT, reason="late")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"shaping": {"x": math.nan}}, "finite"),
        ({"shaping": {"x": math.inf}}, "finite"),
        ({"shaping": {"x": 10.5}}, "less than or equal to 10"),
        ({"shaping": {"x": -10.5}}, "greater than or equal to -10"),
        ({"shaping": {"": 1}}, "at least 1 character"),
        ({"shaping": {"x" * 101: 1}}, "at most 100 characters"),
        ({"shaping": {str(number): 1 for number in range(MAX_TERMS + 1)}}, "at most 16 items"),
        ({"shaping": {"rule": 1}, "reward_components": {"rule": 1.0}}, "names of reward components"),
        ({"shaping": {"accuracy": 1}}, "names of reward components"),
        ({"shaping": {"x": 1}, "reward": None, "failure": DOWN}, "a masked verification has no shaping"),
        ({"reward": 1.1}, "less than or equal to 1"),
    ],
)
def test_shaping_is_bounded_and_of_what_was_measured(fields: JsonObject, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Verification.model_validate({"reward": 1.0} | fields)


def test_a_failure_of_the_model_may_cost_it_more_than_its_reward() -> None:
    grade = Verification(reward=0.0, failure=LATE, shaping={"late": -1.0})
    assert (grade.trainer_reward, grade.trainer_components) == (-1.0, {"accuracy": 0.0, "late": -1.0})
