"""From a record to the line that a trainer gets: samples with shaped rewards first, what its group made of it last."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gym_core.episode import EpisodeStorage
from gym_core.errors import FAILURE_POLICY
from gym_core.export.images import with_data_urls
from gym_core.export.samples import SessionReading
from gym_core.rollout.groups import (
    NO_GROUP_REWARDS,
    STALE,
    VERSION_UNKNOWN,
    ShapedReward,
    oldest_version,
    shaped_reward,
    staleness_fault,
)
from gym_core.rollout.journal import JournalEntry
from gym_core.types.flat_row import flat_from_record
from gym_core.types.rollout import RolloutRecord
from gym_core.types.sample import TrainingSample
from gym_core.types.trainer import EndReason, RolloutLine, RolloutsRequest
from gym_core.types.verification import ShapingTerms, Verification
from gym_core.types.wire import Wire

HARMLESS_MASKS = frozenset({"no_trained_tokens", STALE, VERSION_UNKNOWN, NO_GROUP_REWARDS})
"""Reasons for which a sample is not for training and its rollout is sound all the same."""

ReadSession = Callable[[RolloutRecord], SessionReading]
"""Blocking. What the calls of a rollout's session hold for training."""


@dataclass(frozen=True)
class Fate:
    """What is decided about a rollout when its group is complete."""

    advantage: float | None = None
    dropped: str | None = None
    unmeasured: str | None = None
    policy_version: int | None = None
    """The current one."""


@dataclass(frozen=True)
class LineMaker:
    """Makes one request's lines. Blocking: a line may hold a hundred thousand tokens."""

    request: RolloutsRequest
    storage: EpisodeStorage
    read_session: ReadSession
    rewards_groups: bool = False
    """Whether the environment rewards whole groups, and this request plays groups."""

    def entry(self, record: RolloutRecord) -> JournalEntry:
        """Raises OSError for a capture that cannot be read, and ValueError as `flat_from_record`."""
        reading = self.read_session(record)
        evidence = record.evidence.model_copy(update={"sequences": reading.summary})
        record = record.model_copy(update={"evidence": evidence})
        verification, group = record.verification, self.request.group
        tool_calls = evidence.agent.calls_run
        shaped = shaped_reward(verification, tool_calls=tool_calls, tool_bonus=group.tool_bonus if group else 0.0)
        weight = group.no_tool_weight if group and group.no_tool_weight is not None and not tool_calls else 1.0
        samples = reading.samples if self.request.samples else ()
        line = RolloutLine(
            task_index=record.task_index,
            repeat=record.key.repeat,
            advantage_group=record.key.task_hash,
            end_reason=_end_reason(verification),
            reward=shaped.reward if shaped else None,
            reward_components=shaped.components if shaped else {},
            tool_calls=tool_calls,
            images=len(evidence.capture.images) if evidence.capture else 0,
            # Who rewards a group reads the rows of it.
            row=flat_from_record(record) if self.request.include_row or self.rewards_groups else None,
            samples=[_with_reward(sample, shaped, weight) for sample in samples],
            no_samples=reading.missing if self.request.samples else None,
        )
        return JournalEntry(
            line=line,
            environment_reward=verification.reward,
            sequences=evidence.sequences,
            lacks_group_rewards=self.rewards_groups and shaped is not None,
        )

    def finished(self, entry: JournalEntry, fate: Fate) -> RolloutLine:
        """The line as it is sent."""
        row = entry.line.row if self.request.include_row else None
        line = entry.line.model_copy(update={"unmeasured": fate.unmeasured, "row": row})
        if fate.dropped is not None:
            return line.model_copy(update={"dropped": fate.dropped, "samples": []})
        samples = [self._finished_sample(sample, fate) for sample in line.samples]
        return line.model_copy(update={"advantage": fate.advantage, "samples": samples})

    def _finished_sample(self, sample: TrainingSample, fate: Fate) -> TrainingSample:
        update: dict[str, object] = {"advantage": fate.advantage}
        fault = staleness_fault(oldest_version(sample), fate.policy_version, self.request.max_staleness)
        if fate.unmeasured == NO_GROUP_REWARDS:
            fault = NO_GROUP_REWARDS
        if not sample.mask and fault is not None:
            update |= {"mask": True, "mask_reason": fault}
        sample = sample.model_copy(update=update)
        return with_data_urls(sample, self.storage.assets) if self.request.images == "inline" else sample


def with_group_rewards(entry: JournalEntry, terms: ShapingTerms) -> JournalEntry:
    """The entry with these terms in its reward and its samples' rewards; one that has them is as it was. Raises
    ValueError for a name that is taken."""
    line = entry.line
    if line.reward is None or not entry.lacks_group_rewards:
        return entry
    if both := sorted(terms.keys() & line.reward_components.keys()):
        raise ValueError(f"rewards of a group are named as those of a rollout: {both}")
    shaped = ShapedReward(math.fsum((line.reward, *terms.values())), line.reward_components | terms)
    samples = [_with_reward(sample, shaped, sample.weight) for sample in line.samples]
    update = {"reward": shaped.reward, "reward_components": shaped.components, "samples": samples}
    return entry.model_copy(update={"line": line.model_copy(update=update), "lacks_group_rewards": False})


def _end_reason(verification: Verification) -> EndReason:
    """The word that the row has: one for every failure of a judge."""
    if verification.failure is None:
        return "completed"
    kind = verification.failure.kind
    return FAILURE_POLICY[kind].row_kind or kind


def _with_reward(sample: TrainingSample, shaped: ShapedReward | None, weight: float) -> TrainingSample:
    if shaped is None:
        return sample
    return sample.model_copy(update={"reward": shaped.reward, "reward_components": shaped.components, "weight": weight})


def encoded(line: Wire) -> bytes:
    """One line of NDJSON."""
    return msgspec.json.encode(line.model_dump()) + b"\n"


@dataclass(frozen=True)
class RolloutFacts:
    """What is kept in memory of a finished rollout."""

    end_reason: EndReason
    reward: float | None
    """Shaped."""
    environment_reward: float | None
    images: int
    tokens: int
    """Of its longest sample."""
    sample_fault: str | None
    no_samples: str | None = None
    """Why it has none, where some were asked for."""
    oldest_versions: tuple[int | None, ...] = ()
    """Of each sample with an answer."""
    lacks_group_rewards: bool = False

    @classmethod
    def of(cls, entry: JournalEntry) -> "RolloutFacts":
        line = entry.line
        faults = [s.mask_reason for s in line.samples if s.mask_reason and s.mask_reason not in HARMLESS_MASKS]
        return cls(
            end_reason=line.end_reason,
            reward=line.reward,
            environment_reward=entry.environment_reward,
            images=line.images,
            tokens=max((len(sample.token_ids) for sample in line.samples), default=0),
            sample_fault=faults[0] if faults else None,
            no_samples=line.no_samples,
            oldest_versions=tuple(oldest_version(sample) for sample in line.samples if sample.calls),
            lacks_group_rewards=entry.lacks_group_rewards,
        )
