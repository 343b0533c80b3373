"""The groups of one request: which are open, what became of the others, and how many prompts are wanted next."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from gym_core.launch.rollout_lines import Fate, RolloutFacts
from gym_core.rollout.groups import (
    MASKED,
    NO_GROUP_REWARDS,
    Judged,
    Member,
    Played,
    judge_group,
    rank_groups,
    schedule_of,
    staleness_fault,
)
from gym_core.rollout.journal import Place
from gym_core.types.rollout import RolloutKey, RunRequest
from gym_core.types.trainer import GroupLine, Oversampling, RolloutsRequest


@dataclass(frozen=True)
class Finished:
    """A rollout that ended, and where it lies in the journal."""

    key: RolloutKey
    place: Place
    facts: RolloutFacts


@dataclass(frozen=True)
class Delivery:
    """A rollout on its way to the reader."""

    place: Place
    fate: Fate


Ready = list[Delivery | GroupLine]
"""What can be sent, in order."""


@dataclass
class _Group:
    requests: list[RunRequest]
    finished: dict[int, Finished] = field(default_factory=dict)
    """By repeat."""
    unrewarded: str | None = None
    """Why the environment did not reward it, where it was asked to."""

    @property
    def is_complete(self) -> bool:
        return len(self.finished) == len(self.requests)

    @property
    def in_order(self) -> list[Finished]:
        return [self.finished[repeat] for repeat in sorted(self.finished)]


class GroupBook:
    """Without groups in the request every rollout is on its own, and ready at once."""

    def __init__(self, request: RolloutsRequest, *, available: int) -> None:
        """`available`: prompts there are."""
        self.outcomes: Counter[str] = Counter()
        """"kept", and each reason why not, to closed groups."""
        self._request = request
        self._schedule = schedule_of(request.group, repeats=request.num_repeats)
        self._played = Played(available=available)
        self._open: dict[str, _Group] = {}
        self._held: list[tuple[_Group, Judged]] = []
        """Closed ones that wait for the ranking."""

    @property
    def wanted(self) -> int:
        """Prompts to begin now; 0 while none is open means that the selection is over."""
        return self._schedule.wanted(self._played)

    @property
    def started(self) -> int:
        return self._played.started

    @property
    def are_open(self) -> bool:
        return bool(self._open)

    @property
    def stopped_by(self) -> Literal["enough", "prompts", "budget"]:
        return self._schedule.stopped_by(self._played)

    def begin(self, prompt: list[RunRequest]) -> None:
        """Open the group of these rollouts."""
        self._played = replace(self._played, started=self._played.started + 1, open=self._played.open + 1)
        self._open[prompt[0].key.task_hash] = _Group(prompt)

    def join(self, finished: Finished, version: int | None) -> tuple[Ready, bool]:
        """What is ready by it, and whether a group was closed. `version` is the policy's current one."""
        group = self._open.get(finished.key.task_hash)
        if group is None:
            return [Delivery(finished.place, Fate(policy_version=version))], False
        group.finished[finished.key.repeat] = finished
        return (self._close(group, version), True) if group.is_complete else ([], False)

    def completed_by(self, finished: Finished) -> list[Finished]:
        """All of its group, in order, when it is the last of it; none when it is not, or there are no groups."""
        group = self._open.get(finished.key.task_hash)
        if group is None or len(group.finished) + 1 < len(group.requests):
            return []
        members = {**group.finished, finished.key.repeat: finished}
        return [members[repeat] for repeat in sorted(members)]

    def replace(self, finished: Finished) -> None:
        """A rollout that joined before, as its siblings changed it."""
        self._open[finished.key.task_hash].finished[finished.key.repeat] = finished

    def leave_unrewarded(self, task_hash: str, reason: str) -> None:
        """Keep for the group's line why its environment did not reward it."""
        self._open[task_hash].unrewarded = reason

    def flush(self, version: int | None) -> Ready:
        """Nothing more is played: close what is open, and rank what was held."""
        ready: Ready = []
        for group in list(self._open.values()):
            if group.finished:
                ready += self._close(group, version)
            else:
                self.outcomes["incomplete"] += 1
        for group, judged in self._ranked():
            ready += self._sent(group, judged, version)
        return ready

    def _close(self, group: _Group, version: int | None) -> Ready:
        options = self._request.group
        assert options is not None  # a group is opened where one was asked for
        del self._open[group.requests[0].key.task_hash]
        judged = judge_group([self._member(finished, version) for finished in group.in_order], options)
        self._played = replace(
            self._played,
            open=self._played.open - 1,
            kept_groups=self._played.kept_groups + (judged.kept > 0),
            kept_rollouts=self._played.kept_rollouts + judged.kept,
        )
        if judged.kept and isinstance(options.selection, Oversampling):
            self._held.append((group, judged))
            return []
        return self._sent(group, judged, version)

    def _member(self, finished: Finished, version: int | None) -> Member:
        facts = finished.facts
        limit = self._request.max_staleness
        unmeasured = MASKED if facts.reward is None else None
        if facts.lacks_group_rewards:
            unmeasured = NO_GROUP_REWARDS
        for oldest in facts.oldest_versions:
            unmeasured = unmeasured or staleness_fault(oldest, version, limit)
        return Member(
            reward=None if unmeasured else facts.reward,
            accuracy=facts.environment_reward,
            unmeasured=unmeasured,
            end_reason=facts.end_reason,
            images=facts.images,
            tokens=facts.tokens,
            sample_fault=facts.sample_fault,
            no_samples=facts.no_samples if self._request.require_token_ids else None,
        )

    def _sent(self, group: _Group, judged: Judged, version: int | None) -> Ready:
        reason = judged.reason or (None if group.is_complete else "incomplete")
        self.outcomes["kept" if judged.kept else reason or "broken"] += 1
        first = group.requests[0]
        line = GroupLine(
            task_index=first.task_index,
            advantage_group=first.key.task_hash,
            statistics=judged.statistics,
            kept=judged.kept,
            reason=reason,
            unmeasured=Counter(why for why in judged.unmeasured if why is not None),
            no_group_rewards=group.unrewarded,
        )
        fates = [
            Fate(advantage, dropped, unmeasured, version)
            for advantage, dropped, unmeasured in zip(judged.advantages, judged.dropped, judged.unmeasured, strict=True)
        ]
        return [*(Delivery(m.place, fate) for m, fate in zip(group.in_order, fates, strict=True)), line]

    def _ranked(self) -> list[tuple[_Group, Judged]]:
        options = self._request.group
        if options is None or not isinstance(options.selection, Oversampling):
            return []
        chosen = rank_groups(
            [judged for _, judged in self._held], options.selection.prompts * self._request.num_repeats
        )
        found = [(group, _cut(judged, kept)) for (group, judged), kept in zip(self._held, chosen, strict=True)]
        self._held = []
        return sorted(found, key=lambda item: -(item[1].statistics.std or 0.0))


def _cut(judged: Judged, kept: list[int]) -> Judged:
    """The group with only those of its members that the ranking chose."""
    dropped = [
        reason if reason is not None or position in kept else "ranked_out"
        for position, reason in enumerate(judged.dropped)
    ]
    return replace(judged, dropped=dropped, reason=judged.reason if kept else "ranked_out")
