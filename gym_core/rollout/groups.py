"""Around the group: what the rollouts of one prompt make of each other. Pure functions over rewards.

A reward of None is no measurement (masked, or of a policy that is too old): it is in no mean, no deviation and no count
of measured rollouts, and gets no advantage. Standard deviations are the population's (divided by n).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gym_core.types.sample import TrainingSample
from gym_core.types.trainer import (
    DynamicSampling,
    EndReason,
    GroupOptions,
    GroupStatistics,
    KeepAll,
    Oversampling,
    Selection,
)
from gym_core.types.verification import TOOL_USE, Verification

ADVANTAGE_EPSILON = 1e-6
"""Added to the standard deviation that an advantage is divided by."""
TOOL_BONUS = "tool_bonus"
"""Name of the reward component; the others are `Verification.trainer_components`."""
STALE = "stale"
"""`mask_reason` of a sample whose policy is too old."""
NO_GROUP_REWARDS = "no_group_rewards"
"""Why a rollout is not measured whose environment rewards whole groups, and did not reward this one; and the
`mask_reason` of its samples."""
MASKED = "masked"
"""Why a rollout is not measured that has no reward."""
VERSION_UNKNOWN = "policy_version_unknown"
"""`mask_reason` of a sample where nobody knows whether it is."""

Rewards = Sequence[float | None]


def statistics(rewards: Rewards) -> GroupStatistics:
    """O(n)."""
    measured = [reward for reward in rewards if reward is not None]
    if not measured:
        return GroupStatistics(rollouts=len(rewards), measured=0)
    mean = math.fsum(measured) / len(measured)
    variance = math.fsum((reward - mean) ** 2 for reward in measured) / len(measured)
    return GroupStatistics(
        rollouts=len(rewards),
        measured=len(measured),
        mean=mean,
        std=math.sqrt(variance) if has_variance(rewards) else 0.0,
        min=min(measured),
        max=max(measured),
    )


def has_variance(rewards: Rewards) -> bool:
    """Whether two measured rewards differ; exact, where a computed deviation of equal rewards may miss 0."""
    return len({reward for reward in rewards if reward is not None}) > 1


def advantages(rewards: Rewards, kind: Literal["centered", "normalized"]) -> list[float | None]:
    """One a rollout. None for what was not measured, and for all when fewer than two were."""
    seen = statistics(rewards)
    if seen.measured < 2 or seen.mean is None or seen.std is None:
        return [None] * len(rewards)
    scale = seen.std + ADVANTAGE_EPSILON if kind == "normalized" else 1.0
    if not has_variance(rewards):
        return [None if reward is None else 0.0 for reward in rewards]
    return [None if reward is None else (reward - seen.mean) / scale for reward in rewards]


@dataclass(frozen=True)
class ShapedReward:
    reward: float
    components: dict[str, float]
    """They sum up to `reward`."""


def shaped_reward(grade: Verification, *, tool_calls: int, tool_bonus: float) -> ShapedReward | None:
    """What a trainer is given: the reward, the environment's shaping, and the bonus that a request asks for.

    The bonus is bonus * tool calls * [reward = 1], PyVision-RL's accumulative tool reward at a bonus of 0.1. An
    environment with a `TOOL_USE` term pays for tools itself: the request's bonus is left out. None for a masked grade.
    """
    if grade.reward is None or grade.trainer_reward is None:
        return None
    parts = grade.trainer_components
    if tool_bonus == 0 or TOOL_USE in grade.shaping:
        return ShapedReward(grade.trainer_reward, parts)
    bonus = tool_bonus * tool_calls if grade.reward == 1.0 else 0.0
    parts[TOOL_BONUS] = parts.get(TOOL_BONUS, 0.0) + bonus
    return ShapedReward(math.fsum(parts.values()), parts)


def oldest_version(sample: TrainingSample) -> int | None:
    """Of the answers in a sample; None when that of one is not known: it may be older than all others."""
    versions = [span.policy_version for span in sample.calls if span.policy_version is not None]
    return min(versions, default=None) if len(versions) == len(sample.calls) else None


def staleness_fault(oldest: int | None, current: int | None, max_staleness: int | None) -> str | None:
    """Why a sample is not known to be within the limit, as its `mask_reason`; None when it is, or without a limit.

    A version that nobody knows is never taken for a fresh one: nobody set one, or the policy's server was restarted.
    """
    if max_staleness is None:
        return None
    if oldest is None or current is None:
        return VERSION_UNKNOWN
    return STALE if current - oldest > max_staleness else None


@dataclass(frozen=True)
class Member:
    """What a group needs to know of one of its rollouts."""

    reward: float | None
    """Shaped; None when it is masked or stale."""
    accuracy: float | None = None
    """The environment's own reward, where another one was shaped from it."""
    unmeasured: str | None = None
    """Why there is none: `MASKED`, `STALE`, `VERSION_UNKNOWN` or `NO_GROUP_REWARDS`."""
    end_reason: EndReason = "completed"
    images: int = 0
    """That the policy saw."""
    tokens: int = 0
    """Of its longest sample, prompt included."""
    sample_fault: str | None = None
    """Why its samples cannot be trained, such as placeholders that do not match their pictures."""
    no_samples: str | None = None
    """Why it has none, where it must have some."""


def broken_reason(member: Member, options: Oversampling) -> str | None:
    """Why a rollout does not enter a batch, as PyVision-RL filters them; None for a sound one."""
    if member.reward is None:
        return "broken:masked"
    if options.needs_image and not member.images:
        return "broken:no_image"
    if (fault := member.no_samples or member.sample_fault) is not None:
        return f"broken:{fault}"
    if member.tokens > options.max_tokens:
        return "broken:too_long"
    if member.end_reason not in options.kept_end_reasons:
        return f"broken:{member.end_reason}"
    return None


def _reason_to_drop(member: Member, selection: Selection) -> str | None:
    """No selection keeps a rollout with nothing to train; what else is broken only oversampling says."""
    if isinstance(selection, Oversampling):
        return broken_reason(member, selection)
    return f"broken:{member.no_samples}" if member.no_samples is not None else None


def _deciding(members: Sequence[Member], selection: Selection) -> Rewards:
    """Rewards that have to vary. DAPO asks for right and wrong answers, so that shaping makes no difference; else
    whatever makes advantages does."""
    if not isinstance(selection, DynamicSampling):
        return [member.reward for member in members]
    return [m.reward if m.reward is None or m.accuracy is None else m.accuracy for m in members]


@dataclass(frozen=True)
class Judged:
    """What becomes of a complete group."""

    statistics: GroupStatistics
    advantages: list[float | None]
    dropped: list[str | None]
    """For each member the reason why it is not in the batch."""
    unmeasured: list[str | None]
    """For each member, as `Member.unmeasured`."""
    reason: str | None
    """Of the group, as in `GroupLine.reason`."""

    @property
    def kept(self) -> int:
        """In the batch: none where nothing was measured. Masked samples are sent all the same unless dropped."""
        return self.dropped.count(None) if self.statistics.measured else 0


def judge_group(members: Sequence[Member], options: GroupOptions) -> Judged:
    """Drop the group, or some of it, and give the rest advantages.

    Mean and deviation are of all measured rollouts of the group, the broken ones among them: they were sampled from
    the same policy, and leaving them out would tilt the baseline.
    """
    rewards = [member.reward for member in members]
    seen = statistics(rewards)
    selection = options.selection
    must_vary = options.drop_zero_variance or not isinstance(selection, KeepAll)
    reason = None
    if seen.measured < 2:
        reason = "too_few_measured"
    elif must_vary and not has_variance(_deciding(members, selection)):
        reason = "zero_variance"
    dropped: list[str | None] = [None] * len(members)
    if reason == "zero_variance" or (reason == "too_few_measured" and must_vary):
        dropped = [reason] * len(members)
    else:
        dropped = [_reason_to_drop(member, selection) for member in members]
        reason = reason if None in dropped else "broken"
    unmeasured = [member.unmeasured for member in members]
    return Judged(seen, advantages(rewards, options.advantage), dropped, unmeasured, reason)


def rank_groups(groups: Sequence[Judged], keep: int) -> list[list[int]]:
    """For each group the positions of its members that are among the `keep` best.

    Groups by standard deviation, highest first, equal ones in their order; within a group the members that were not
    dropped, in order; the last group may be cut.
    """
    chosen: list[list[int]] = [[] for _ in groups]
    order = sorted(range(len(groups)), key=lambda i: -(groups[i].statistics.std or 0.0))
    for index in order:
        sound = [position for position, reason in enumerate(groups[index].dropped) if reason is None]
        chosen[index] = sound[: max(0, keep)]
        keep -= len(chosen[index])
    return chosen


# -- which prompts are played ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Played:
    """How far a selection has come."""

    available: int
    """Prompts there are in all."""
    started: int = 0
    open: int = 0
    """Groups of which something is still to be finished."""
    kept_groups: int = 0
    kept_rollouts: int = 0


class Schedule(Protocol):
    def wanted(self, played: Played) -> int:
        """So many prompts are to be started now. 0 with no group open means that the selection is over."""

    def stopped_by(self, played: Played) -> Literal["enough", "prompts", "budget"]:
        """Why nothing more is started."""


@dataclass(frozen=True)
class _Everything:
    def wanted(self, played: Played) -> int:
        return played.available - played.started

    def stopped_by(self, played: Played) -> Literal["enough", "prompts", "budget"]:
        return "prompts"


@dataclass(frozen=True)
class _UntilInformative:
    options: DynamicSampling

    def wanted(self, played: Played) -> int:
        left = _allowed(played.available, self.options.max_prompts) - played.started
        return max(0, min(left, self.options.groups - played.kept_groups - played.open))

    def stopped_by(self, played: Played) -> Literal["enough", "prompts", "budget"]:
        if played.kept_groups >= self.options.groups:
            return "enough"
        return "prompts" if played.started >= played.available else "budget"


@dataclass(frozen=True)
class _InRounds:
    options: Oversampling
    repeats: int

    def wanted(self, played: Played) -> int:
        if played.open or played.kept_rollouts >= self.keep:
            return 0
        left = _allowed(played.available, self.options.max_prompts) - played.started
        return max(0, min(left, math.ceil(self.options.factor * self.options.prompts)))

    @property
    def keep(self) -> int:
        return self.options.prompts * self.repeats

    def stopped_by(self, played: Played) -> Literal["enough", "prompts", "budget"]:
        if played.kept_rollouts >= self.keep:
            return "enough"
        return "prompts" if played.started >= played.available else "budget"


def schedule_of(options: GroupOptions | None, *, repeats: int) -> Schedule:
    selection = options.selection if options else KeepAll()
    match selection:
        case DynamicSampling():
            return _UntilInformative(selection)
        case Oversampling():
            return _InRounds(selection, repeats)
        case KeepAll():
            return _Everything()


def _allowed(available: int, budget: int | None) -> int:
    return available if budget is None else min(available, budget)
