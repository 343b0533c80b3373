"""What the rollouts of one prompt make of each other: figures worked out by hand, and properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_core.errors import FailureKind
from gym_core.rollout.groups import (
    Judged,
    Member,
    Played,
    advantages,
    broken_reason,
    judge_group,
    oldest_version,
    rank_groups,
    schedule_of,
    shaped_reward,
    staleness_fault,
    statistics,
)
from gym_core.types.sample import SampledSpan, TrainingSample
from gym_core.types.trainer import DynamicSampling, GroupOptions, KeepAll, Oversampling
from gym_core.types.verification import Failure, Verification

rewards_of = st.lists(st.none() | st.floats(0, 2, allow_nan=False), max_size=12)


def members(*rewards: float | None, **fields: object) -> list[Member]:
    return [Member(reward=reward, **{"images": 1, **fields}) for reward in rewards]  # type: ignore[arg-type]


# -- statistics and advantages ---------------


def test_mean_and_population_deviation_are_of_the_measured_rollouts() -> None:
    found = statistics([1.0, 0.0, None, 0.0, 1.0, 1.0])
    assert (found.rollouts, found.measured, found.mean, found.min, found.max) == (6, 5, 0.6, 0.0, 1.0)
    assert found.std == pytest.approx(math.sqrt(0.24))  # 3 of 0.4 squared and 2 of 0.6 squared, a fifth of it


def test_a_centered_advantage_is_not_divided() -> None:
    assert advantages([1.0, 0.0, 0.0, 0.0], "centered") == [0.75, -0.25, -0.25, -0.25]


def test_a_normalized_advantage_is_divided_by_deviation_and_epsilon() -> None:
    assert advantages([1.0, 0.0], "normalized") == pytest.approx([0.5 / 0.500001, -0.5 / 0.500001], rel=1e-12)


def test_a_masked_rollout_has_no_advantage_and_moves_no_baseline() -> None:
    assert advantages([1.0, None, 0.0], "centered") == [0.5, None, -0.5]


@pytest.mark.parametrize("rewards", [[], [1.0], [1.0, None], [None, None]])
def test_fewer_than_two_measured_rollouts_have_no_advantage(rewards: list[float | None]) -> None:
    assert advantages(rewards, "normalized") == [None] * len(rewards)


@given(rewards_of)
def test_centered_advantages_sum_to_nothing_and_keep_the_order_of_the_rewards(rewards: list[float | None]) -> None:
    found = advantages(rewards, "centered")
    pairs = [(r, a) for r, a in zip(rewards, found, strict=True) if r is not None and a is not None]
    assert math.fsum(a for _, a in pairs) == pytest.approx(0, abs=1e-9)
    assert all((r1 < r2) <= (a1 <= a2) for r1, a1 in pairs for r2, a2 in pairs)


@given(rewards_of, st.permutations(range(12)))
def test_masked_rollouts_change_nothing_wherever_they_stand(rewards: list[float | None], places: list[int]) -> None:
    measured = [r for r in rewards if r is not None]
    spread = list(rewards)
    for place in places[:4]:
        spread.insert(min(place, len(spread)), None)
    expected = advantages(measured, "normalized")
    assert [a for r, a in zip(spread, advantages(spread, "normalized"), strict=True) if r is not None] == expected


@given(st.floats(0, 1), st.integers(2, 8))
def test_equal_rewards_have_no_variance_whatever_the_rounding(reward: float, count: int) -> None:
    assert statistics([reward] * count).std == 0.0
    assert advantages([reward] * count, "normalized") == [0.0] * count


@given(rewards_of)
def test_normalized_advantages_have_a_deviation_of_one(rewards: list[float | None]) -> None:
    found = [a for a in advantages(rewards, "normalized") if a is not None]
    std = statistics(rewards).std
    if found and std is not None and std > 1e-2:
        assert statistics(found).std == pytest.approx(1, abs=1e-3)


# -- rewards and versions ---------------


@pytest.mark.parametrize(
    ("reward", "calls", "total", "bonus"),
    [(1.0, 3, 1.3, 0.3), (1.0, 0, 1.0, 0.0), (0.0, 3, 0.0, 0.0), (0.5, 2, 0.5, 0.0)],
)
def test_the_accumulative_tool_reward_pays_only_for_right_answers(
    reward: float, calls: int, total: float, bonus: float
) -> None:
    found = shaped_reward(Verification(reward=reward), tool_calls=calls, tool_bonus=0.1)
    assert found is not None
    assert found.reward == pytest.approx(total)
    assert found.components == {"accuracy": reward, "tool_bonus": pytest.approx(bonus)}


@given(
    st.floats(0, 1),
    st.integers(0, 40),
    st.floats(0, 1),
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 1)),
    st.dictionaries(st.sampled_from(["d", "tool_use", "tool_bonus"]), st.floats(-10, 10)),
)
def test_components_always_sum_to_the_reward(
    reward: float, calls: int, bonus: float, components: dict[str, float], shaping: dict[str, float]
) -> None:
    grade = Verification(reward=reward, reward_components=components, shaping=shaping)
    found = shaped_reward(grade, tool_calls=calls, tool_bonus=bonus)
    assert found is not None
    assert math.fsum(found.components.values()) == pytest.approx(found.reward, abs=1e-9)


def test_an_environments_own_components_stay_when_they_sum_up() -> None:
    own = {"rule": 0.25, "judge": 0.75}
    grade = Verification(reward=1.0, reward_components=own, shaping={"no_judge": -0.5})
    assert grade.trainer_components == {**own, "no_judge": -0.5}
    found = shaped_reward(grade, tool_calls=2, tool_bonus=0.1)
    assert found is not None
    assert found.reward == pytest.approx(0.7)
    assert found.components == {**own, "no_judge": -0.5, "tool_bonus": 0.2}
    assert Verification(reward=1.0, reward_components={"rule": 0.25}).trainer_components == {"accuracy": 1.0}


@pytest.mark.parametrize(
    ("reward", "shaping", "bonus", "components"),
    [(1.0, {}, 0.1, {"accuracy": 1.0, "tool_bonus": 0.3}),
     (1.0, {"tool_use": 0.2}, 0.1, {"accuracy": 1.0, "tool_use": 0.2}),
     (1.0, {"tool_use": 0.0}, 0.1, {"accuracy": 1.0, "tool_use": 0.0}),
     (0.0, {"tool_use": 0.0}, 0.1, {"accuracy": 0.0, "tool_use": 0.0}),
     (1.0, {"no_tool": -0.5}, 0.1, {"accuracy": 1.0, "no_tool": -0.5, "tool_bonus": 0.3}),
     (0.0, {"no_tool": -0.5}, 0.0, {"accuracy": 0.0, "no_tool": -0.5})],
)  # fmt: skip
def test_a_request_pays_for_tools_only_where_the_environment_does_not(
    reward: float, shaping: dict[str, float], bonus: float, components: dict[str, float]
) -> None:
    found = shaped_reward(Verification(reward=reward, shaping=shaping), tool_calls=3, tool_bonus=bonus)
    assert found is not None
    assert found.components == pytest.approx(components)
    assert found.reward == pytest.approx(sum(components.values()))


def test_a_masked_grade_gives_a_trainer_nothing() -> None:
    masked = Verification.failed(Failure(kind=FailureKind.JUDGE_FAILED, reason="down"))
    assert shaped_reward(masked, tool_calls=3, tool_bonus=0.1) is None
    assert (masked.trainer_reward, masked.trainer_components) == (None, {})


@pytest.mark.parametrize(
    ("oldest", "current", "limit", "expected"),
    [(3, 5, 2, None), (2, 5, 2, "stale"), (5, 5, 0, None), (4, 5, 0, "stale"), (1, 9, None, None),
     (None, None, None, None), (None, 5, 9, "policy_version_unknown"), (1, None, 9, "policy_version_unknown"),
     (None, None, 9, "policy_version_unknown")],
)  # fmt: skip
def test_a_sample_is_stale_when_it_is_not_known_to_be_within_the_limit(
    oldest: int | None, current: int | None, limit: int | None, expected: str | None
) -> None:
    assert staleness_fault(oldest, current, limit) == expected


@pytest.mark.parametrize(("versions", "oldest"), [([9, 8], 8), ([9, None], None), ([None], None), ([], None)])
def test_the_oldest_version_of_a_sample_is_known_when_each_is(versions: list[int | None], oldest: int | None) -> None:
    span = {"call_id": "c", "start": 0, "end": 1, "is_trained": True, "finish_reason": "stop"}
    calls = [SampledSpan.model_validate({**span, "policy_version": version}) for version in versions]
    sample = TrainingSample.model_construct(calls=calls)  # type: ignore[call-arg]  # nothing else of it is looked at
    assert oldest_version(sample) == oldest


# -- dropping and ranking ---------------


def test_a_group_without_variance_is_dropped_where_it_is_asked_for() -> None:
    assert judge_group(members(1.0, 1.0), GroupOptions()).dropped == [None, None]
    found = judge_group(members(1.0, 1.0, None), GroupOptions(drop_zero_variance=True))
    assert (found.reason, found.dropped, found.kept) == ("zero_variance", ["zero_variance"] * 3, 0)


def test_a_group_of_one_measured_rollout_says_why_it_has_no_advantages() -> None:
    found = judge_group(members(1.0, None), GroupOptions())
    assert (found.reason, found.advantages, found.kept) == ("too_few_measured", [None, None], 2)
    assert judge_group(members(1.0, None), GroupOptions(selection=DynamicSampling(groups=1))).kept == 0


def test_a_group_in_which_nothing_was_measured_is_not_kept_and_its_masked_samples_are_sent() -> None:
    found = judge_group(members(None, None), GroupOptions())
    assert (found.reason, found.kept, found.dropped) == ("too_few_measured", 0, [None, None])


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (Member(1.0, images=1), None),
        (Member(None, images=1), "broken:masked"),
        (Member(1.0, images=0), "broken:no_image"),
        (Member(1.0, images=1, sample_fault="image_tokens"), "broken:image_tokens"),
        (Member(1.0, images=1, no_samples="no_token_ids"), "broken:no_token_ids"),
        (Member(1.0, images=1, tokens=131_072), None),
        (Member(1.0, images=1, tokens=131_073), "broken:too_long"),
        (Member(0.0, images=1, end_reason=FailureKind.CONTEXT_LIMIT), "broken:context_limit"),
        (Member(0.0, images=1, end_reason=FailureKind.AGENT_RUN_ERROR), None),
    ],
)
def test_broken_rollouts_are_those_of_pyvision(member: Member, expected: str | None) -> None:
    assert broken_reason(member, Oversampling(prompts=1)) == expected


@pytest.mark.parametrize("selection", [KeepAll(), DynamicSampling(groups=1)])
def test_no_selection_keeps_a_rollout_without_a_sample(selection: KeepAll | DynamicSampling) -> None:
    lost = Member(0.0, no_samples="no_token_ids")
    found = judge_group([*members(1.0, 0.0), lost], GroupOptions(selection=selection))
    assert (found.reason, found.dropped, found.kept) == (None, [None, None, "broken:no_token_ids"], 2)
    assert found.statistics.measured == 3
    every = judge_group([lost, Member(1.0, no_samples="no_token_ids")], GroupOptions(selection=selection))
    assert (every.reason, every.kept) == ("broken", 0)


def test_broken_rollouts_leave_the_batch_and_stay_in_the_baseline() -> None:
    group = [*members(1.0, 0.0), Member(0.0, images=0), Member(1.0, images=1)]
    found = judge_group(group, GroupOptions(selection=Oversampling(prompts=1)))
    assert found.dropped == [None, None, "broken:no_image", None]
    assert found.advantages == [0.5, -0.5, -0.5, 0.5]


def oversampled(*groups: list[Member], keep: int) -> list[list[int]]:
    options = GroupOptions(selection=Oversampling(prompts=1))
    return rank_groups([judge_group(group, options) for group in groups], keep)


def test_groups_are_ranked_by_deviation_and_cut_at_the_batch() -> None:
    # deviations: 1/4 right 0.433, all right 0 (dropped), half right 0.5, 3/4 right 0.433
    quarter, all_right = members(1.0, 0.0, 0.0, 0.0), members(1.0, 1.0, 1.0, 1.0)
    half, three = members(1.0, 1.0, 0.0, 0.0), members(1.0, 1.0, 1.0, 0.0)
    assert oversampled(quarter, all_right, half, three, keep=8) == [[0, 1, 2, 3], [], [0, 1, 2, 3], []]
    assert oversampled(quarter, all_right, half, three, keep=6) == [[0, 1], [], [0, 1, 2, 3], []]


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=2, max_size=6), max_size=6), st.integers(0, 20))
def test_ranking_keeps_as_many_as_there_are_and_never_a_dropped_one(
    rewards: list[list[float | None]], keep: int
) -> None:
    options = GroupOptions(selection=Oversampling(prompts=1))
    groups: list[Judged] = [judge_group(members(*group), options) for group in rewards]
    chosen = rank_groups(groups, keep)
    assert sum(map(len, chosen)) == min(keep, sum(group.kept for group in groups))
    assert all(group.dropped[i] is None for group, some in zip(groups, chosen, strict=True) for i in some)
    lowest_kept = min((g.statistics.std or 0 for g, some in zip(groups, chosen, strict=True) if some), default=9)
    unkept = [g.statistics.std or 0 for g, some in zip(groups, chosen, strict=True) if not some and g.kept]
    assert all(std <= lowest_kept for std in unkept)


# -- which prompts are played ---------------


def play(options: GroupOptions, outcomes: list[bool], *, repeats: int = 4) -> tuple[list[int], str]:
    """Rounds of prompts that a schedule starts when each group ends as `outcomes` says (kept or not)."""
    schedule = schedule_of(options, repeats=repeats)
    rounds: list[int] = []
    started = kept = 0
    while wanted := schedule.wanted(
        Played(len(outcomes), started=started, kept_groups=kept, kept_rollouts=kept * repeats)
    ):
        kept += sum(outcomes[started : started + wanted])
        started += wanted
        rounds.append(wanted)
    played = Played(len(outcomes), started=started, kept_groups=kept, kept_rollouts=kept * repeats)
    return rounds, schedule.stopped_by(played)


@pytest.mark.parametrize(
    ("outcomes", "budget", "rounds", "end"),
    [
        ([True, True, False, True], None, [2], "enough"),
        ([True, False, False, True], None, [2, 1, 1], "enough"),
        ([False, False, False, False, True], 4, [2, 2], "budget"),
        ([False, False, False], 9, [2, 1], "prompts"),
    ],
)
def test_dynamic_sampling_replaces_each_uninformative_group(
    outcomes: list[bool], budget: int | None, rounds: list[int], end: str
) -> None:
    options = GroupOptions(selection=DynamicSampling(groups=2, max_prompts=budget))
    assert play(options, outcomes) == (rounds, end)


def test_dynamic_sampling_opens_no_group_that_might_not_be_needed() -> None:
    schedule = schedule_of(GroupOptions(selection=DynamicSampling(groups=3)), repeats=2)
    assert schedule.wanted(Played(99, started=4, open=2, kept_groups=1)) == 0
    assert schedule.wanted(Played(99, started=4, open=1, kept_groups=1)) == 1


@pytest.mark.parametrize(
    ("outcomes", "budget", "rounds", "end"),
    [
        ([True] * 9, None, [4], "enough"),
        ([True, False, False, False, True, False, False, False, True], None, [4, 4], "enough"),
        ([False] * 9, 6, [4, 2], "budget"),
        ([False] * 5, None, [4, 1], "prompts"),
    ],
)
def test_oversampling_goes_on_in_rounds_until_the_batch_is_there(
    outcomes: list[bool], budget: int | None, rounds: list[int], end: str
) -> None:
    options = GroupOptions(selection=Oversampling(prompts=2, max_prompts=budget))
    assert play(options, outcomes) == (rounds, end)
