"""Rewards of a rollout that depend on its siblings: what the head asks an environment when a group is complete."""

from typing import Annotated

from pydantic import Field

from gym_core.types.trainer import MAX_REPEATS
from gym_core.types.verification import ShapingTerms
from gym_core.types.wire import BulkyWire, JsonObject, Wire


class GroupRewardAbility(Wire):
    rewards_groups: bool
    """Whether this environment has such rewards: who plays groups then asks for them."""


class GroupRewardRequest(BulkyWire):
    rows: Annotated[list[JsonObject], Field(min_length=1, max_length=MAX_REPEATS)]
    """The graded rollouts of one prompt, as lines of an output file; masked ones are not among them."""


class GroupRewardReply(Wire):
    terms: list[ShapingTerms]
    """For each row, in order: name to number, what a trainer's reward has beside those that the row names."""
