"""The one point of Student's t distribution that 95 % intervals need."""

import math
from functools import lru_cache

_Z_975 = 1.959963984540054
_EXPANDED_FROM = 200
"""Degrees from which on the expansion around the normal is exact to twelve digits."""


@lru_cache(maxsize=_EXPANDED_FROM)
def t_quantile_975(degrees: int) -> float:
    """97.5 % point of Student's t for a positive whole number of degrees of freedom."""
    if degrees >= _EXPANDED_FROM:
        return _expanded(degrees)
    low, high = _Z_975, 13.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if _central_share(middle, degrees) < 0.95 else (low, middle)
    return (low + high) / 2


def _central_share(t: float, degrees: int) -> float:
    """Chance to lie within -t and t: the finite series for whole degrees (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(degrees))
    cosine_squared = math.cos(theta) ** 2
    if degrees % 2:
        term, total = math.cos(theta), 0.0
        for k in range(2, degrees, 2):
            total += term
            term *= cosine_squared * k / (k + 1)
        return 2 / math.pi * (theta + math.sin(theta) * total)
    term, total = 1.0, 0.0
    for k in range(1, degrees, 2):
        total += term
        term *= cosine_squared * k / (k + 1)
    return math.sin(theta) * total


def _expanded(degrees: int) -> float:
    """Hill's expansion."""
    z, n = _Z_975, float(degrees)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )
