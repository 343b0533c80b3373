"""Numbers that somebody will publish: checked against closed forms, brute force and simulation."""

import itertools
import math
import random

import pytest

from gym_core.rollout.plan import plan_rollouts
from gym_core.statistics.clustered_mean import estimate
from gym_core.statistics.outcome import outcome_of
from gym_core.statistics.pass_at_k import pass_at_k
from gym_core.statistics.report import aggregate
from gym_core.statistics.student_t import t_quantile_975
from gym_core.types.verification import Verification
from tests.fakes.rollouts import make_record, make_task


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (387, 1.966)],
)
def test_t_quantiles_are_those_of_the_tables(degrees: int, expected: float) -> None:
    assert t_quantile_975(degrees) == pytest.approx(expected, rel=4e-3)


def test_with_one_rollout_a_task_the_interval_is_the_ordinary_t_interval() -> None:
    rewards = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    mean = sum(rewards) / 8
    sem = math.sqrt(sum((r - mean) ** 2 for r in rewards) / 7 / 8)
    found = estimate([[r] for r in rewards])
    assert found.mean == pytest.approx(mean)
    assert found.ci_low_95 is not None
    assert mean - found.ci_low_95 == pytest.approx(t_quantile_975(7) * sem)


def test_the_interval_of_few_tasks_stays_within_what_a_reward_can_be() -> None:
    found = estimate([[1.0], [0.0]])
    assert (found.ci_low_95, found.ci_high_95) == (0.0, 1.0)


def test_repeats_of_a_task_do_not_narrow_the_interval_when_they_all_agree() -> None:
    once, thrice = estimate([[1.0], [0.0], [1.0], [0.0]]), estimate([[1.0] * 3, [0.0] * 3, [1.0] * 3, [0.0] * 3])
    assert (once.ci_low_95, once.ci_high_95) == pytest.approx((thrice.ci_low_95, thrice.ci_high_95))


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng, hits, runs = random.Random(7), 0, 400
    for _ in range(runs):
        chances = [rng.random() for _ in range(40)]
        found = estimate([[float(rng.random() < p) for _ in range(4)] for p in chances])
        assert found.ci_low_95 is not None
        assert found.ci_high_95 is not None
        hits += found.ci_low_95 <= 0.5 <= found.ci_high_95
    assert 0.91 <= hits / runs <= 0.98


@pytest.mark.parametrize("rewards", [[1, 0, 0], [1, 1, 0, 0], [0, 0, 0], [1, 1]])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_answer(rewards: list[float]) -> None:
    for k in range(1, len(rewards) + 1):
        subsets = list(itertools.combinations(rewards, k))
        assert pass_at_k(rewards, k) == pytest.approx(sum(max(s) >= 1 for s in subsets) / len(subsets))


def test_masked_rollouts_are_counted_and_left_out_of_every_mean() -> None:
    requests = plan_rollouts([make_task(i, category="c") for i in range(3)], repeats=2, environment="e")
    rewards = [1.0, 0.0, None, 1.0, 1.0, None]
    outcomes = [outcome_of(make_record(r, reward=x)) for r, x in zip(requests, rewards, strict=True)]
    report = aggregate(outcomes, environment="e", expected=8)
    assert report.key_metrics["mean/reward"] == pytest.approx(3 / 4)
    assert report.coverage.model_dump() == {
        "expected": 8, "finished": 6, "measured": 4, "masked": 2, "missing": 2, "fully_masked_tasks": 1,
    }  # fmt: skip
    assert report.masked_failures == {"sandbox_lost": 2}
    assert report.by_category["c"].rollouts == 4


def test_avg_at_k_takes_the_passes_by_repeat_whatever_order_they_ended_in() -> None:
    requests = plan_rollouts([make_task(i) for i in range(2)], repeats=2, environment="e")
    rewards = {0: 1.0, 1: 0.0}
    outcomes = [outcome_of(make_record(r, reward=rewards[r.key.repeat])) for r in reversed(requests)]
    metrics = aggregate(outcomes, environment="e", expected=4).key_metrics
    assert (metrics["avg@2"], metrics["avg@2/std"], metrics["pass@2"]) == (0.5, 0.5, 1.0)


@pytest.mark.parametrize(
    ("details", "agreement"),
    [
        ([{"matcher_equal": True, "judge_model": "j"}, {"matcher_equal": False, "judge_model": "j"}], 0.5),
        ([{"matcher_equal": True, "judge_model": None}, {"matcher_equal": False, "judge_model": None}], None),
        ([{"matcher_equal": False, "judge_model": "j"}, {"matcher_equal": False, "judge_model": None}], 0.0),
        ([{}, {}], None),
    ],
    ids=["another judge", "the matcher itself", "one had no answer to judge", "no matcher"],
)
def test_the_matcher_is_compared_with_verdicts_of_others_alone(
    details: list[dict[str, object]], agreement: float | None
) -> None:
    requests = plan_rollouts([make_task(0), make_task(1)], repeats=1, environment="e")
    records = [
        make_record(request).model_copy(update={"verification": Verification(reward=1.0, details=found)})
        for request, found in zip(requests, details, strict=True)
    ]
    assert aggregate([outcome_of(r) for r in records], environment="e", expected=2).matcher_agreement == agreement
