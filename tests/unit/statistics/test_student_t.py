import pytest
from scipy import stats

from gym_core.statistics.student_t import t_quantile_975


@pytest.mark.parametrize("degrees", [*range(1, 60), 99, 100, 199, 200, 201, 387, 5000, 10**6])
def test_the_quantile_is_that_of_scipy(degrees: int) -> None:
    assert t_quantile_975(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-10)
