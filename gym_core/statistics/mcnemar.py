"""McNemar's exact test: of the tasks on which two runs disagree, do both win about half?"""

import math
from fractions import Fraction


def exact_mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided p of a fair coin that falls `gained` to `lost`; 1 without disagreement."""
    discordant, fewer = gained + lost, min(gained, lost)
    tail = sum(math.comb(discordant, k) for k in range(fewer + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2**discordant)))
