"""pass@k: the chance that one of k tries is right, from n tries."""

import math
from collections.abc import Sequence


def pass_at_k(rewards: Sequence[float], k: int) -> float:
    """Unbiased chance that k of a task's n >= k rollouts hold a right one (reward 1)."""
    n, right = len(rewards), sum(reward >= 1.0 for reward in rewards)
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)
