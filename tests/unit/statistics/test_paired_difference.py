"""Against scipy and statsmodels: the paired t interval, McNemar's test and the permutation test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from gym_core.statistics.mcnemar import exact_mcnemar_p
from gym_core.statistics.paired_difference import RewardPair, paired_difference, paired_test
from gym_core.statistics.sign_flips import RESAMPLES, sign_flip_test
from gym_core.types.comparison import PairedTestMethod

repeats = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4)
uneven_pairs = st.lists(st.builds(RewardPair, repeats, repeats), min_size=2, max_size=9)


def differences_of(pairs: list[RewardPair]) -> np.ndarray:
    return np.array([np.mean(pair.b) - np.mean(pair.a) for pair in pairs])


def permuted(differences: np.ndarray) -> float:
    """scipy swaps within pairs; all ways, for that few. In whole numbers, for its sums to be exact."""
    twelfths = np.round(12 * differences)
    found = stats.permutation_test(
        (twelfths, np.zeros_like(twelfths)),
        lambda x, y: np.sum(x) - np.sum(y),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    return float(found.pvalue)


@settings(max_examples=30, deadline=None)
@given(uneven_pairs)
def test_the_interval_is_the_t_interval_of_the_tasks_differences(pairs: list[RewardPair]) -> None:
    differences = differences_of(pairs)
    found = paired_difference(pairs)
    assert found.difference == pytest.approx(differences.mean(), abs=1e-12)
    assert found.mean_b - found.mean_a == pytest.approx(found.difference, abs=1e-12)  # type: ignore[operator]
    half = stats.t.ppf(0.975, len(pairs) - 1) * differences.std(ddof=1) / np.sqrt(len(pairs))
    assert found.ci_low_95 == pytest.approx(max(-1.0, differences.mean() - half), abs=1e-9)
    assert found.ci_high_95 == pytest.approx(min(1.0, differences.mean() + half), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(uneven_pairs)
def test_all_sign_flips_are_the_permutation_test_of_scipy(pairs: list[RewardPair]) -> None:
    differences = differences_of(pairs)
    found = sign_flip_test(list(differences))
    assert found.resamples is None
    assert found.p_value == pytest.approx(permuted(differences), abs=1e-9)


@pytest.mark.parametrize("table", [(0, 0), (1, 0), (3, 1), (5, 5), (12, 3), (40, 61), (388, 0)])
def test_one_repeat_of_right_or_wrong_is_mcnemars_exact_test(table: tuple[int, int]) -> None:
    gained, lost = table
    expected = mcnemar([[7, gained], [lost, 9]], exact=True).pvalue
    assert exact_mcnemar_p(gained, lost) == pytest.approx(expected)
    pairs = [RewardPair([0.0], [1.0])] * gained + [RewardPair([1.0], [0.0])] * lost + [RewardPair([1.0], [1.0])]
    found = paired_test(pairs)
    assert found is not None
    assert (found.method, found.gained, found.lost) == (PairedTestMethod.MCNEMAR, gained, lost)
    assert found.p_value == pytest.approx(expected)


def test_mcnemar_is_the_sign_flips_of_single_repeats() -> None:
    differences = [1.0] * 9 + [-1.0] * 3 + [0.0] * 20
    assert sign_flip_test(differences).p_value == pytest.approx(exact_mcnemar_p(9, 3))


@pytest.mark.parametrize(
    "pairs",
    [[RewardPair([0.0, 1.0], [1.0])], [RewardPair([0.0], [1.0]), RewardPair([0.5], [1.0])]],
    ids=["a repeat more", "a half right answer"],
)
def test_repeats_and_rewards_in_between_take_the_permutation_test(pairs: list[RewardPair]) -> None:
    found = paired_test(pairs)
    assert found is not None
    assert (found.method, found.resamples, found.seed) == (PairedTestMethod.SIGN_FLIPS, None, None)


def test_where_the_ways_are_too_many_a_stated_number_of_them_is_drawn_the_same_each_time() -> None:
    generator = np.random.default_rng(1)
    differences = list(generator.normal(0.05, 0.2, 60))
    found = sign_flip_test(differences, max_sums=1000)
    assert found.resamples == RESAMPLES
    assert found == sign_flip_test(differences, max_sums=1000)
    normal = 2 * stats.norm.sf(abs(sum(differences)) / np.sqrt(np.square(differences).sum()))
    assert found.p_value == pytest.approx(normal, abs=0.02)
    few = differences[:12]
    assert sign_flip_test(few, max_sums=1).p_value == pytest.approx(sign_flip_test(few).p_value, abs=0.02)


def test_drawn_sign_flips_never_say_zero_and_are_named_with_their_seed() -> None:
    generator = np.random.default_rng(2)
    pairs = [RewardPair([x], [min(1.0, x + 0.3 + x / 7)]) for x in generator.uniform(0, 0.6, 400)]
    found = paired_test(pairs)
    assert found is not None
    assert found.method is PairedTestMethod.SAMPLED_SIGN_FLIPS
    assert found.p_value == pytest.approx(1 / (RESAMPLES + 1))
    assert (found.resamples, found.seed is not None) == (RESAMPLES, True)


def test_several_repeats_of_many_tasks_are_still_counted_exactly() -> None:
    generator = np.random.default_rng(3)
    grid = generator.integers(0, 2, (388, 2, 3)).astype(float)
    found = paired_test([RewardPair(list(a), list(b)) for a, b in grid])
    assert found is not None
    assert found.method is PairedTestMethod.SIGN_FLIPS


def test_no_task_in_common_has_no_difference_and_no_test() -> None:
    assert paired_test([]) is None
    assert paired_difference([]).difference is None
    assert paired_difference([RewardPair([0.0], [1.0])]).ci_low_95 is None
