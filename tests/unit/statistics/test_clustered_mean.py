"""Against statsmodels: a regression on a constant with cluster-robust errors is our mean with its interval."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.regression.linear_model import OLS

from gym_core.statistics.clustered_mean import clustered_mean, estimate

rewards = st.sampled_from([0.0, 0.25, 0.5, 1.0])
uneven = st.lists(st.lists(rewards, min_size=1, max_size=5), min_size=2, max_size=12)


def regression(clusters: list[list[float]]) -> tuple[float, float, float]:
    """Mean and interval."""
    values = np.array([value for cluster in clusters for value in cluster])
    groups = np.array([number for number, cluster in enumerate(clusters) for _ in cluster])
    fitted = OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    low, high = fitted.conf_int(0.05)[0]
    return float(fitted.params[0]), float(low), float(high)


@settings(max_examples=40, deadline=None)
@given(uneven)
def test_mean_and_interval_are_those_of_a_cluster_robust_regression(clusters: list[list[float]]) -> None:
    mean, low, high = regression(clusters)
    found = clustered_mean(clusters)
    assert found.mean == pytest.approx(mean)
    assert found.half_width_95 == pytest.approx((high - low) / 2, abs=1e-9)


def test_what_has_no_values_has_no_mean_and_one_cluster_has_no_interval() -> None:
    assert clustered_mean([]).mean is None
    assert clustered_mean([[], []]).mean is None
    assert clustered_mean([[0.5, 1.0], []]).half_width_95 is None
    assert (estimate([[], [1.0]]).tasks, estimate([[], [1.0]]).mean) == (1, 1.0)
