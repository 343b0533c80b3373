"""What a check of played sessions found: counts of all that was compared, and what did not hold."""

from collections import Counter
from dataclasses import dataclass, field

MAX_SHOWN = 20


@dataclass
class Findings:
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """Empty is what is proved."""
    gaps: list[float] = field(default_factory=list)
    """|train - captured|, the largest of each sample that was recomputed."""

    def expect(self, holds: bool, what: str) -> bool:
        self.counts["comparisons"] += 1
        if not holds:
            self.problems.append(what)
        return holds

    @property
    def largest_gap(self) -> float:
        return max(self.gaps, default=0.0)

    def add(self, other: "Findings") -> None:
        self.counts.update(other.counts)
        self.problems += other.problems
        self.gaps += other.gaps

    def lines(self) -> list[str]:
        width = max(map(len, self.counts), default=0)
        found = [f"{name:{width}}  {count:>10,}" for name, count in sorted(self.counts.items())]
        found.append(f"largest |train - captured| of {len(self.gaps)} samples: {self.largest_gap:.2e} nats")
        found += [f"PROBLEM: {problem}" for problem in self.problems[:MAX_SHOWN]]
        return [*found, f"problems: {len(self.problems)}"]
