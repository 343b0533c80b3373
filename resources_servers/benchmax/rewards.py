"""From a class's named rewards to the one in [0, 1] that the gym publishes. Pure."""

import math
import sys
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from gym_core.types.verification import MAX_TERM

SUM = "sum"
_TOLERANCE = 1e-9
"""0.1 + 0.2 + 0.7 is a little more than 1."""

_Name = Annotated[str, Field(min_length=1)]
RewardRule = _Name | Annotated[dict[_Name, Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1)]
"""`reward` of the server's block: "sum", the name of one component, or weights by component."""
RewardRange = Literal["mask", "clip"]


def read_rewards(found: object) -> dict[str, float]:
    """What `compute_reward` gave; {} for None. Raises ValueError for anything but names with finite numbers."""
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValueError(f"rewards: a {type(found).__name__} is no mapping")
    for name in found:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"rewards: {name!r} is no name")
    return {name: _number(name, value) for name, value in found.items()}


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        advice = "; write float(...)" if hasattr(value, "__float__") and not isinstance(value, bool) else ""
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise ValueError(f"reward {name!r}: {str(value)[:80]} is a {kind}, and no int or float{advice}")
    if not abs(value) <= sys.float_info.max:  # of an int that is too large no text is made
        shown = value if isinstance(value, float) else f"an int of {value.bit_length()} bits"
        raise ValueError(f"reward {name!r}: {shown} is no finite number")
    return float(value)


def read_group_rewards(found: object, own: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """What `compute_group_rewards` gave, by rollout id; `own` are the siblings' rewards of their own. {} for None.

    Raises ValueError for other ids than the siblings', for names that a sibling's own rewards have, and for a term that
    is no shaping.
    """
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValueError(f"rewards of a group: a {type(found).__name__} is no mapping")
    if found.keys() != own.keys():
        missing, unknown = sorted(own.keys() - found.keys()), sorted(map(str, found.keys() - own.keys()))
        raise ValueError(f"rewards of a group: not those of its rollouts: {missing} are missing, {unknown} unknown")
    rewards = {rollout_id: read_rewards(value) for rollout_id, value in found.items()}
    for rollout_id, named in rewards.items():
        for name, value in named.items():
            if abs(value) > MAX_TERM:
                raise ValueError(f"rewards of a group: {name!r}: {value:g} is not in [-{MAX_TERM:g}, {MAX_TERM:g}]")
        if both := sorted(named.keys() & own[rollout_id].keys()):
            raise ValueError(f"rewards of a group: {both} are names of the rollout's own")
    return rewards


def parts_by(rule: RewardRule, rewards: Mapping[str, float]) -> dict[str, float]:
    """The parts that the reward is the sum of. Raises ValueError naming a component that the rule wants and is not
    there."""
    if rule == SUM:
        return dict(rewards)
    weights = {rule: 1.0} if isinstance(rule, str) else rule
    if missing := sorted(weights.keys() - rewards.keys()):
        raise ValueError(f"rewards: no {', '.join(map(repr, missing))} among {sorted(rewards)}")
    return {name: weight * rewards[name] for name, weight in weights.items()}


def total_of(parts: Mapping[str, float], *, range_: RewardRange) -> float:
    """Their sum, in [0, 1]. Raises ValueError for one outside, unless it is to be clipped."""
    total = math.fsum(parts.values())
    if range_ == "mask" and not -_TOLERANCE <= total <= 1 + _TOLERANCE:
        raise ValueError(
            f"the reward {total:g} of {dict(parts)} is not in [0, 1]: set `reward`, or `reward_range: clip`"
        )
    return min(1.0, max(0.0, total))
