"""Numbers that somebody will publish: checked against closed forms, brute force and simulation."""

import itertools
import math
import random

import pytest

from gym_core.rollout.plan import plan_rollouts
from gym_core.statistics.clustered_mean import estimate
from gym_core.statistics.outcome import Outcome, PlannedRollout, outcome_of
from gym_core.statistics.pass_at_k import pass_at_k
from gym_core.statistics.report import aggregate
from gym_core.statistics.student_t import t_quantile_975
from gym_core.types.metrics import MetricsReport
from gym_core.types.verification import Verification
from tests.fakes.rollouts import make_record, make_task


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


def outcome(task: str, repeat: int, reward: float | None, *, answer: str | None = "1", category: str = "c") -> Outcome:
    failure = "sandbox_lost" if reward is None else None
    return Outcome(task, repeat, reward, category, "s", failure, None, {}, {}, {}, answer=answer)


def test_masked_missing_and_unmeasured_are_counted_beside_each_mean() -> None:
    outcomes = [outcome("a", 0, 1.0), outcome("a", 1, None), outcome("b", 0, None), outcome("b", 1, None)]
    planned = [PlannedRollout(task, repeat, "c", "s") for task in "abd" for repeat in range(2)]
    report = aggregate(outcomes, environment="e", expected=6, planned=planned)
    for found in (report.reward, report.by_category["c"], report.by_subtype["c/s"]):
        assert (found.mean, found.tasks, found.rollouts) == (1.0, 1, 1)
        assert (found.masked, found.missing, found.unmeasured_tasks) == (3, 2, 2)
    assert [(p.measured, p.masked, p.missing) for p in report.passes] == [(1, 1, 1), (0, 2, 1)]


def test_a_category_of_which_nothing_is_measured_is_there_without_a_mean() -> None:
    outcomes = [outcome("a", 0, 1.0), outcome("b", 0, None, category="masked")]
    report = aggregate(outcomes, environment="e", expected=3, planned=[PlannedRollout("d", 0, "missing", "")])
    assert report.by_category["masked"].mean is None
    assert report.by_category["missing"].model_dump(include={"mean", "missing", "unmeasured_tasks"}) == {
        "mean": None, "missing": 1, "unmeasured_tasks": 1,
    }  # fmt: skip


def test_pass_at_k_is_of_the_tasks_with_enough_measured_repeats() -> None:
    rewards = {"a": [1.0, 0.0, 0.0], "b": [0.0, 0.0], "c": [1.0]}
    outcomes = [outcome(task, n, reward) for task, tried in rewards.items() for n, reward in enumerate(tried)]
    report = aggregate(outcomes, environment="e", expected=6)
    assert {k: (found.tasks, found.mean) for k, found in report.pass_at.items()} == {
        1: (3, pytest.approx((1 / 3 + 0 + 1) / 3)),
        2: (2, pytest.approx((2 / 3 + 0) / 2)),
        3: (1, 1.0),
    }
    assert "pass@1" not in report.key_metrics


@pytest.mark.parametrize(
    ("answers", "expected"), [(("1", "1", "2"), 1.0), ((None, None, None), None), ((None, "1", "2"), None)]
)
def test_the_majority_is_counted_only_where_rows_say_what_was_answered(
    answers: tuple[str | None, ...], expected: float | None
) -> None:
    rewards = [1.0, 1.0, 0.0]
    outcomes = [outcome("a", n, r, answer=x) for n, (r, x) in enumerate(zip(rewards, answers, strict=True))]
    assert aggregate(outcomes, environment="e", expected=3).key_metrics.get("majority@3") == expected


def test_a_report_from_before_these_fields_is_still_read() -> None:
    report = aggregate([outcome("a", 0, 1.0)], environment="e", expected=1).model_dump(mode="json")
    for new in ("pass_at", "passes", "measures"):
        del report[new]
    for new in ("masked", "missing", "unmeasured_tasks"):
        del report["reward"][new]
    assert MetricsReport.model_validate(report).reward.mean == 1.0


def measured(task: str, repeat: int, reward: float | None, subtype: str, **measures: float) -> Outcome:
    return Outcome(task, repeat, reward, "c", subtype, None, None, {}, {}, {}, measures=measures)


def test_the_environments_own_numbers_are_averaged_over_the_rollouts_that_have_them() -> None:
    outcomes = [
        measured("a", 0, 1.0, "s", look_calls=4.0, roi_recall=0.5),
        measured("a", 1, 0.0, "s", look_calls=0.0),
        measured("b", 0, 0.0, "t", look_calls=-1.0, roi_recall=1.0),
        measured("d", 0, None, "t", look_calls=99.0),
        measured("e", 0, 1.0, ""),
    ]
    report = aggregate(outcomes, environment="e", expected=5)
    assert list(report.measures) == ["look_calls", "roi_recall"]
    calls, recall = report.measures.values()
    assert (calls.overall.mean, calls.overall.tasks, calls.overall.rollouts) == (1.0, 2, 3)
    assert (recall.overall.mean, recall.overall.rollouts) == (0.75, 2)
    assert {name: found.mean for name, found in calls.by_subtype.items()} == {"c/s": 2.0, "c/t": -1.0}
    assert (report.key_metrics["mean/look_calls"], report.key_metrics["mean/roi_recall"]) == (1.0, 0.75)
    assert calls.overall.ci_high_95 is not None
    assert calls.overall.ci_high_95 > 1.0  # of any unit: not cut off as a reward's


def test_a_column_that_is_called_as_one_of_the_runs_own_means_does_not_take_its_place() -> None:
    named_reward = Outcome("a", 0, 1.0, "c", "s", None, None, {}, {}, {}, measures={"reward": 7.0})
    report = aggregate([named_reward], environment="e", expected=1)
    assert report.key_metrics["mean/reward"] == 1.0
