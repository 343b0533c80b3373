"""What the last line of a trainer's request tells, counted while its lines are made and sent."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from gym_core.rollout.journal import JournalEntry
from gym_core.statistics.report import sequence_report
from gym_core.types.sample import SequenceSummary
from gym_core.types.trainer import EndLine, RolloutLine

StoppedBy = Literal["enough", "prompts", "budget", "time"]


@dataclass(frozen=True)
class SentLine:
    """What is counted of a line of a rollout."""

    is_dropped: bool
    samples: int
    trainable_tokens: int

    @classmethod
    def of(cls, line: RolloutLine) -> Self:
        """O(tokens)."""
        tokens = sum(sum(sample.loss_mask) for sample in line.samples if not sample.mask)
        return cls(line.dropped is not None, len(line.samples), tokens)


@dataclass
class Tally:
    """What the last line tells."""

    prompts: int = 0
    started: int = 0
    """Rollouts of those prompts."""
    replayed: int = 0
    rewards: list[float] = field(default_factory=list)
    masked: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    without_samples: Counter[str] = field(default_factory=Counter)
    sequences: list[SequenceSummary | None] = field(default_factory=list)
    dropped: int = 0
    samples: int = 0
    trainable_tokens: int = 0

    @property
    def finished(self) -> int:
        return len(self.rewards) + self.masked

    def finish(self, entry: JournalEntry) -> None:
        if entry.environment_reward is None:
            self.masked += 1
        else:
            self.rewards.append(entry.environment_reward)
        if entry.line.end_reason != "completed":
            self.failures[str(entry.line.end_reason)] += 1
        if entry.line.no_samples is not None:
            self.without_samples[entry.line.no_samples] += 1
        self.sequences.append(entry.sequences)

    def send(self, line: SentLine) -> None:
        self.dropped += line.is_dropped
        self.samples += line.samples
        self.trainable_tokens += line.trainable_tokens

    def end(self, stopped_by: StoppedBy, retries: int, groups: Mapping[str, int]) -> EndLine:
        return EndLine(
            prompts=self.prompts,
            rollouts=self.finished,
            replayed=self.replayed,
            measured=len(self.rewards),
            masked=self.masked,
            dropped=self.dropped,
            unfinished=self.started - self.finished,
            retries=retries,
            groups=dict(groups),
            stopped_by=stopped_by,
            samples=self.samples,
            trainable_tokens=self.trainable_tokens,
            mean_reward=math.fsum(self.rewards) / len(self.rewards) if self.rewards else None,
            without_samples=dict(self.without_samples),
            failures=dict(self.failures),
            sequences=sequence_report(self.sequences),
        )
