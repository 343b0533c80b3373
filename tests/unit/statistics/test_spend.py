"""What attempts took: prices, sums over attempts, time in which something ran, and what the rest will take."""

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from gym_core.statistics.spend import AttemptSpend, SpendTally, attempt_spend, estimate_rest, failure_spend
from gym_core.types.cost import RunPrices, TokenCount, TokenPrices
from gym_core.types.ids import EpisodeId
from gym_core.types.rollout import EpisodeEvidence, EpisodeTiming, RolloutKey
from gym_core.types.session import CaptureSummary, SandboxEnforcement
from gym_core.types.wire import JsonObject

POLICY = TokenPrices(input=2.0, cached_input=0.5, output=8.0, currency="USD")
JUDGE = TokenPrices(input=1.0, output=4.0, currency="USD")
BOX = SandboxEnforcement(
    provider="fake", mechanism="none", network="none", memory="none", seccomp=False, user="shared_uid"
)


def evidence(
    attempt: int = 0, *, input_tokens: int = 1_000_000, total_s: float = 10.0, has_sandbox: bool = True, **capture: int
) -> EpisodeEvidence:
    counts = {"calls": 2, "input_tokens": input_tokens, "output_tokens": 500_000, **capture}
    return EpisodeEvidence(
        episode_id=EpisodeId(rollout_id="r", attempt=attempt),
        capture=CaptureSummary.model_validate({"session_id": "s", **counts}),
        sandbox=BOX if has_sandbox else None,
        timing=EpisodeTiming(total=total_s, model=4.0),
    )


def judged(**tokens: int) -> JsonObject:
    return {"judge_usage": {"calls": 1, **tokens}}


def key(number: int = 0) -> RolloutKey:
    return RolloutKey(task_hash=f"{number:064x}", repeat=0)


# -- prices -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prices", "policy", "judge", "cost"),
    [
        (RunPrices(), TokenCount(input=5, calls=1), TokenCount(), None),
        (RunPrices(policy=POLICY), TokenCount(), TokenCount(), 0.0),
        (RunPrices(policy=POLICY), TokenCount(input=1_000_000, output=500_000, calls=1), TokenCount(), 6.0),
        (RunPrices(policy=POLICY), TokenCount(input=1_000_000, cached_input=400_000, calls=1), TokenCount(), 1.4),
        (RunPrices(policy=JUDGE), TokenCount(input=1_000_000, cached_input=400_000, calls=1), TokenCount(), 1.0),
        (RunPrices(policy=POLICY), TokenCount(input=10, cached_input=99, calls=1), TokenCount(), 5e-6),
        (RunPrices(policy=POLICY), TokenCount(input=5, calls=2, uncounted_calls=1), TokenCount(), None),
        (RunPrices(policy=POLICY), TokenCount(), TokenCount(input=5, calls=1), None),
        (RunPrices(policy=POLICY, judge=JUDGE), TokenCount(), TokenCount(output=1_000_000, calls=1), 4.0),
        (RunPrices(judge=JUDGE), TokenCount(), TokenCount(output=1_000_000, calls=1), None),
    ],
    ids=[
        "no price",
        "nothing spent",
        "input and output",
        "cached input",
        "cached input without a price of its own",
        "an endpoint that counts more cached than there was",
        "uncounted calls",
        "a judge without a price",
        "the judge counts too",
        "a policy without a price",
    ],
)
def test_a_cost_is_a_number_only_where_all_of_it_is_known(
    prices: RunPrices, policy: TokenCount, judge: TokenCount, cost: float | None
) -> None:
    assert prices.cost_of(policy, judge) == (pytest.approx(cost) if cost is not None else None)


@pytest.mark.parametrize("wrong", [{"input": -1}, {"output": float("nan")}, {"currency": "dollars"}, {"tokens": 3}])
def test_a_wrong_price_is_refused(wrong: JsonObject) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TokenPrices.model_validate({"input": 1, "output": 1, "currency": "USD"} | wrong)


# -- attempts -----------------------------------------------------------------


def test_an_attempt_has_the_tokens_of_policy_and_judge_and_its_seconds() -> None:
    spent = attempt_spend(evidence(cached_input_tokens=7), judged(input=30, output=4))
    assert spent.policy == TokenCount(input=1_000_000, cached_input=7, output=500_000, calls=2)
    assert spent.judge == TokenCount(input=30, output=4, calls=1)
    assert (spent.total_s, spent.sandbox_s, spent.model_s) == (10.0, 10.0, 4.0)
    assert attempt_spend(evidence(has_sandbox=False), {}).sandbox_s == 0.0


def test_answers_whose_tokens_nobody_counted_are_not_taken_for_free() -> None:
    assert attempt_spend(evidence(input_tokens=0), {}).policy.uncounted_calls == 2
    assert attempt_spend(evidence(uncounted_calls=1, failed_calls=1), {}).policy.uncounted_calls == 1
    assert attempt_spend(evidence(input_tokens=0, calls=1, failed_calls=1), {}).policy.uncounted_calls == 0


@pytest.mark.parametrize("foreign", ["many", 7, {"tokens": 3}, []])
def test_another_graders_column_of_that_name_is_no_count(foreign: object) -> None:
    assert attempt_spend(evidence(), {"judge_usage": foreign}).judge == TokenCount()


def test_every_attempt_counts_once_whoever_tells_of_it() -> None:
    tally = SpendTally(RunPrices(policy=POLICY, judge=JUDGE))
    row = {"task_hash": key().task_hash, "repeat": 0, "failed_at": 20.0, "evidence": evidence(0).model_dump()}
    broken_key, broken, failed_at = failure_spend(row)
    for _ in range(2):
        tally.note(broken_key, broken, {}, ended_at=failed_at)
    tally.note(key(), evidence(1), judged(input=1_000_000), ended_at=40.0)
    tally.note(key(), evidence(1), judged(input=1_000_000), ended_at=40.0)
    tally.note(key(1), evidence(1, has_sandbox=False), {}, ended_at=40.0)
    spend = tally.total()
    assert (spend.attempts, spend.policy.input, spend.judge.input) == (3, 3_000_000, 1_000_000)
    assert (spend.policy_cost, spend.judge_cost, spend.cost, spend.currency) == (18.0, 1.0, 19.0, "USD")
    assert (spend.wall_s, spend.sandbox_s, spend.model_s) == (20.0, 20.0, 12.0)


def test_retries_are_a_part_of_their_rollout() -> None:
    tally = SpendTally()
    for attempt in range(2):
        tally.note(key(), evidence(attempt), {}, ended_at=1.0)
    tally.note(key(1), evidence(), {}, ended_at=1.0)
    assert [(spent.policy.input, spent.total_s) for spent in tally.rollouts()] == [(2_000_000, 20.0), (1_000_000, 10.0)]


def test_without_a_price_a_run_has_tokens_and_no_cost() -> None:
    tally = SpendTally()
    tally.note(key(), evidence(), {}, ended_at=1.0)
    spend = tally.total()
    assert (spend.policy.calls, spend.cost, spend.policy_cost, spend.currency) == (2, None, None, None)


def test_time_counts_while_something_runs_and_pauses_do_not() -> None:
    random.seed(5)
    spans = [(start := random.uniform(0, 1000), start + random.uniform(0, 30)) for _ in range(60)]
    tally = SpendTally()
    for number, (start, end) in enumerate(spans):  # in any order: a second run's files are read as they come
        tally.note(key(number), evidence(total_s=end - start), {}, ended_at=end)
    assert tally.total().wall_s == pytest.approx(_covered(spans))


def _covered(spans: Sequence[tuple[float, float]]) -> float:
    """By edges: what lies between two neighbouring ones is covered when some span holds its middle."""
    edges = sorted({edge for span in spans for edge in span})
    return math.fsum(
        b - a for a, b in zip(edges, edges[1:], strict=False) if any(s <= (a + b) / 2 <= e for s, e in spans)
    )


# -- the rest -----------------------------------------------------------------


def spent(seconds: float, tokens: int) -> AttemptSpend:
    return AttemptSpend(TokenCount(input=tokens, calls=1), TokenCount(), seconds, seconds, 0.0)


def test_the_rest_is_estimated_from_what_was_seen() -> None:
    seen = [spent(10, 1000), spent(20, 2000), spent(30, 3000)]
    rest = estimate_rest(seen, rollouts=100, parallel=4, prices=RunPrices(policy=POLICY))
    assert rest is not None
    assert (rest.rollouts, rest.seen, rest.currency) == (100, 3, "USD")
    assert (rest.wall_s.mean, rest.sandbox_s.mean, rest.input_tokens.mean) == (500.0, 2000.0, 200_000.0)
    assert rest.cost is not None
    assert rest.cost.mean == pytest.approx(0.4)
    half = 4.302653 * statistics.stdev([10, 20, 30]) * math.sqrt(100**2 / 3 + 100)
    assert rest.sandbox_s.high_95 == pytest.approx(2000 + half)
    assert rest.sandbox_s.low_95 == pytest.approx(max(0.0, 2000 - half))


def test_one_rollout_has_no_spread_none_has_no_estimate_and_an_unknown_cost_is_none() -> None:
    rest = estimate_rest([spent(10, 1000)], rollouts=2, parallel=8, prices=RunPrices())
    assert rest is not None
    assert (rest.wall_s.mean, rest.wall_s.low_95, rest.cost) == (10.0, None, None)
    assert estimate_rest([], rollouts=2, parallel=8, prices=RunPrices()) is None


def test_the_interval_holds_what_comes_about_as_often_as_it_says() -> None:
    chance = random.Random(11)

    def draw() -> float:
        return chance.gauss(100, 20)

    held = 0
    for _ in range(400):
        rest = estimate_rest([spent(draw(), 1) for _ in range(8)], rollouts=50, parallel=1, prices=RunPrices())
        assert rest is not None
        assert rest.sandbox_s.low_95 is not None
        assert rest.sandbox_s.high_95 is not None
        held += rest.sandbox_s.low_95 <= sum(draw() for _ in range(50)) <= rest.sandbox_s.high_95
    assert 0.92 <= held / 400 <= 0.98
