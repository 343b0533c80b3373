"""The root of all environments."""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from benchmax.envs.shared_types import RewardMap, RolloutAttempt

PayloadT = TypeVar("PayloadT")
AttemptT = TypeVar("AttemptT", bound=RolloutAttempt)


class Environment(ABC, Generic[PayloadT, AttemptT]):
    scorable_termination_reasons: ClassVar[frozenset[str]] = frozenset(
        {"finished", "context_exceeded", "output_exceeded", "max_turns_exceeded", "tool_budget_exceeded"}
    )
    """Attempts that ended otherwise are not scored."""

    async def compute_group_rewards(self, rollouts: Sequence[AttemptT]) -> Mapping[str, RewardMap] | None:
        """Rewards by rollout id that depend on the siblings; None for none."""
        return None

    async def aclose(self) -> None:
        """Release what the environment holds for all rollouts."""
