"""avg@k as BabyVision reports it: each repeat is a pass over the tasks, with a score of its own."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gym_core.types.metrics import PassScore


@dataclass(frozen=True)
class PassAverage:
    """Over the passes that were finished and have a score."""

    passes: int
    mean: float
    std: float
    """Population standard deviation of the passes (ddof 0), as the paper has it; 0 of one pass."""


def score_passes(
    rewards: Mapping[tuple[str, int], float | None], planned: Iterable[tuple[str, int]] = ()
) -> list[PassScore]:
    """The passes in order. `rewards` are of finished rollouts by (task, repeat), None when masked.

    A task of some pass is one of every pass: without a row in one of them it is missing there.
    """
    keys = rewards.keys() | set(planned)
    tasks = {task for task, _ in keys}
    measured: dict[int, list[float]] = defaultdict(list)
    masked: dict[int, int] = defaultdict(int)
    for (_, repeat), reward in rewards.items():
        if reward is None:
            masked[repeat] += 1
        else:
            measured[repeat].append(reward)
    return [
        PassScore(
            repeat=repeat,
            mean=math.fsum(measured[repeat]) / len(measured[repeat]) if measured[repeat] else None,
            measured=len(measured[repeat]),
            masked=masked[repeat],
            missing=len(tasks) - len(measured[repeat]) - masked[repeat],
        )
        for repeat in sorted({repeat for _, repeat in keys})
    ]


def average_passes(scores: Sequence[PassScore]) -> PassAverage | None:
    """None when no pass is finished."""
    means = [score.mean for score in scores if score.missing == 0 and score.mean is not None]
    if not means:
        return None
    mean = math.fsum(means) / len(means)
    std = math.sqrt(math.fsum((each - mean) ** 2 for each in means) / len(means))
    return PassAverage(len(means), mean, std)
