"""A permutation test for paired differences: if A and B are alike, each task's difference could as well be minus that.

Two-sided p: the share of the ways to choose the signs in which the sum is at least as far from 0 as it was seen to be.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 20_000
SEED = 20_260_111
_UNIT = math.lcm(*range(1, 25))
"""Differences are counted in parts of it, so that those of means of up to 24 zeros and ones are whole numbers."""
_MAX_SUMS = 1 << 16
"""Different ones, that the exact count keeps: those of some sixteen arbitrary differences, or of any number of tasks
whose rewards are 0 and 1."""
_MAX_STEPS = 3_000_000
"""Of the exact count; about a second of work."""


@dataclass(frozen=True)
class SignFlipTest:
    p_value: float
    resamples: int | None
    """None when every choice of signs was counted."""


def sign_flip_test(differences: Sequence[float], *, max_sums: int = _MAX_SUMS) -> SignFlipTest:
    """Exact where the sums that are possible are few enough, as they are for few tasks and for rewards of 0 and 1.

    Otherwise by `RESAMPLES` random choices with the seed `SEED`, the seen one counted along, so that p is never 0.
    """
    sizes = [abs(round(difference * _UNIT)) for difference in differences if round(difference * _UNIT)]
    seen = abs(sum(round(difference * _UNIT) for difference in differences)) - len(sizes)  # less what rounding can do
    chances = _chances_of_sums(sizes, max_sums)
    if chances is not None:
        p_value = math.fsum(chance for total, chance in chances.items() if abs(total) >= seen)
        return SignFlipTest(min(1.0, p_value), None)
    return SignFlipTest(_sampled_p(sizes, seen), RESAMPLES)


def _chances_of_sums(sizes: Sequence[int], max_sums: int) -> dict[int, float] | None:
    """Every sum that signs can make of the sizes, with its chance; None when they are too many."""
    chances, steps = {0: 1.0}, 0
    for size in sizes:
        steps += len(chances)
        if len(chances) > max_sums or steps > _MAX_STEPS:
            return None
        grown: dict[int, float] = {}
        for total, chance in chances.items():
            for moved in (total - size, total + size):
                grown[moved] = grown.get(moved, 0.0) + chance / 2
        chances = grown
    return chances


def _sampled_p(sizes: Sequence[int], seen: int) -> float:
    generator = np.random.default_rng(SEED)
    sums = np.zeros(RESAMPLES, np.float64)
    for size, count in Counter(sizes).items():
        sums += (2.0 * generator.binomial(count, 0.5, RESAMPLES) - count) * size
    return float(1 + np.count_nonzero(np.abs(sums) >= seen)) / (1 + RESAMPLES)
