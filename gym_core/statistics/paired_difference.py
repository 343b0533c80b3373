"""The difference of two runs on the tasks that both measured, with its interval and its test."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gym_core.statistics.clustered_mean import clustered_mean
from gym_core.statistics.mcnemar import exact_mcnemar_p
from gym_core.statistics.sign_flips import SEED, sign_flip_test
from gym_core.types.comparison import PairedDifference, PairedTest, PairedTestMethod


@dataclass(frozen=True)
class RewardPair:
    """The measured rewards of one task; at least one on either side."""

    a: Sequence[float]
    b: Sequence[float]

    @property
    def difference(self) -> float:
        """Of the means, B - A."""
        return fmean(self.b) - fmean(self.a)

    @property
    def is_single_and_binary(self) -> bool:
        return len(self.a) == len(self.b) == 1 and {self.a[0], self.b[0]} <= {0.0, 1.0}


def paired_difference(pairs: Sequence[RewardPair]) -> PairedDifference:
    """The task is what is sampled, so the interval is the t interval of the tasks' own differences."""
    if not pairs:
        return PairedDifference(tasks=0)
    found = clustered_mean([pair.difference] for pair in pairs)
    assert found.mean is not None  # there are pairs
    half = found.half_width_95
    return PairedDifference(
        tasks=len(pairs),
        mean_a=fmean(fmean(pair.a) for pair in pairs),
        mean_b=fmean(fmean(pair.b) for pair in pairs),
        difference=found.mean,
        ci_low_95=None if half is None else max(-1.0, found.mean - half),
        ci_high_95=None if half is None else min(1.0, found.mean + half),
    )


def paired_test(pairs: Sequence[RewardPair]) -> PairedTest | None:
    """McNemar's where every task was tried once and is right or wrong, else sign flips; None without pairs."""
    if not pairs:
        return None
    differences = [pair.difference for pair in pairs]
    gained, lost = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    if all(pair.is_single_and_binary for pair in pairs):
        p_value = exact_mcnemar_p(gained, lost)
        return PairedTest(method=PairedTestMethod.MCNEMAR, p_value=p_value, gained=gained, lost=lost)
    found = sign_flip_test(differences)
    if found.resamples is None:
        return PairedTest(method=PairedTestMethod.SIGN_FLIPS, p_value=found.p_value, gained=gained, lost=lost)
    return PairedTest(
        method=PairedTestMethod.SAMPLED_SIGN_FLIPS,
        p_value=found.p_value,
        gained=gained,
        lost=lost,
        resamples=found.resamples,
        seed=SEED,
    )
