"""Examples, attempts, and the failures that an environment may name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

PayloadT = TypeVar("PayloadT")

DatasetSplit = Literal["train", "eval"]
RewardMap = Mapping[str, float]
"""Name of a component to a finite number."""


class RolloutFailure(RuntimeError):
    """Something around the environment failed; `termination_reason` is its word for what."""

    def __init__(self, termination_reason: str, message: str) -> None:
        _check_text(termination_reason, "termination_reason")
        _check_text(message, "message")
        if termination_reason == "finished":
            raise ValueError("termination_reason: a failure cannot be 'finished'")
        super().__init__(message)
        self.termination_reason = termination_reason


@dataclass(frozen=True, slots=True)
class Example(Generic[PayloadT]):
    """One row of a dataset, by an id that stays."""

    id: str
    payload: PayloadT

    def __post_init__(self) -> None:
        _check_text(self.id, "id of an example")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutAttempt:
    """One rollout that ended."""

    rollout_id: str
    termination_reason: str
    rewards: RewardMap | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        _check_text(self.rollout_id, "rollout_id")
        _check_text(self.termination_reason, "termination_reason")
        if self.rewards is not None:
            _check_rewards(self.rewards)
        if self.error is not None:
            _check_text(self.error, "error")


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name}: {value!r} is no text, or a blank one")


def _check_rewards(rewards: object) -> None:
    if not isinstance(rewards, Mapping):
        raise TypeError(f"rewards: a {type(rewards).__name__} is no mapping")
    for name, value in rewards.items():
        _check_text(name, "name of a reward")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"reward {name!r}: {value!r} is no finite number")
