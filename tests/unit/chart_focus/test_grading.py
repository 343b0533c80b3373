"""The reward against a table that was worked out by hand: answer x action x channels x switches."""

import math
from dataclasses import dataclass, field

import pytest
from pydantic import ValidationError

from gym_core.errors import FailureKind
from gym_core.judging.contract import GradingInput, Judge, JudgeFailed, Verdict, VerdictLabel
from gym_core.types.responses import OutputItem
from gym_core.types.verification import Verification
from resources_servers.chart_focus.grading import Attempt, ChannelWeights, RewardRules, grade
from resources_servers.chart_focus.runtime import FAILED
from tests.unit.chart_focus.trajectories import BARS, FOCUS, UNLISTED, misread, reply, runs, says

RIGHT, NEAR, WRONG = "20", "16", "blue"
"""The gold is 20; 16 has 0.8 of the rule channel."""
ACTIONS: dict[str, list[OutputItem]] = {
    "used": runs(FOCUS),
    "none": [],
    "failed": runs(FOCUS, FAILED),
    "misread": misread(),
    "unlisted": runs(UNLISTED),
}
RULE_ONLY = RewardRules()
HALVES = RewardRules(channels=ChannelWeights(rule=1, judge=1))
MOSTLY_JUDGE = RewardRules(channels=ChannelWeights(rule=1, judge=3))
JUDGE_ONLY = RewardRules(channels=ChannelWeights(rule=0, judge=1))


@dataclass
class YesOrNo:
    """Right is right, and near is near enough for it too."""

    asked: list[GradingInput] = field(default_factory=list)

    async def grade(self, grading: GradingInput) -> Verdict:
        self.asked.append(grading)
        said_yes = grading.answer in (RIGHT, NEAR)
        return Verdict(VerdictLabel.EQUIVALENT if said_yes else VerdictLabel.DIFFERENT, "", attempts=1)


class Speechless:
    async def grade(self, grading: GradingInput) -> Verdict:
        raise JudgeFailed("no token", kind=FailureKind.JUDGE_UNPARSEABLE, details={"judge_attempts": 2})


async def graded(
    answer: str | None, action: str, rules: RewardRules = RULE_ONLY, judge: Judge | None = None
) -> Verification:
    said = "I do not know." if answer is None else f"ANSWER: so. FINAL ANSWER: {answer}. TERMINATE"
    attempt = Attempt(BARS, reply(says("THOUGHT 0"), ACTIONS[action], says(said)))
    if judge is None and rules.channels.judge:
        judge = YesOrNo()
    return await grade(attempt, rules, judge)


# answer, action, reward with: the rule alone, halves, one to three, the judge alone; the flag
TABLE = [
    (RIGHT, "used", 1.0, 1.0, 1.0, 1.0, 1),
    (RIGHT, "none", 1.0, 1.0, 1.0, 1.0, 0),
    (RIGHT, "unlisted", 1.0, 1.0, 1.0, 1.0, -1),
    (RIGHT, "failed", 0.0, 0.0, 0.0, 0.0, -10),
    (RIGHT, "misread", 0.0, 0.0, 0.0, 0.0, -10),
    (NEAR, "used", 0.8, 0.9, 0.95, 1.0, 1),
    (NEAR, "none", 0.8, 0.9, 0.95, 1.0, 0),
    (NEAR, "unlisted", 0.8, 0.9, 0.95, 1.0, -1),
    (NEAR, "failed", 0.0, 0.0, 0.0, 0.0, -10),
    (WRONG, "used", 0.0, 0.0, 0.0, 0.0, 1),
    (WRONG, "none", 0.0, 0.0, 0.0, 0.0, 0),
    (WRONG, "unlisted", 0.0, 0.0, 0.0, 0.0, -1),
    (WRONG, "failed", 0.0, 0.0, 0.0, 0.0, -10),
]


@pytest.mark.parametrize(("answer", "action", "rule", "halves", "mostly", "judged", "flag"), TABLE)
async def test_the_reward_by_hand(
    answer: str, action: str, rule: float, halves: float, mostly: float, judged: float, flag: int
) -> None:
    for rules, reward in ((RULE_ONLY, rule), (HALVES, halves), (MOSTLY_JUDGE, mostly), (JUDGE_ONLY, judged)):
        found = await graded(answer, action, rules)
        assert found.reward == pytest.approx(reward)
        assert sum(found.reward_components.values()) == pytest.approx(reward)
        assert set(found.reward_components) == ({"rule"} if rules is RULE_ONLY else {"rule", "judge"})
        assert (found.details["tool_flag"], found.failure, found.shaping) == (flag, None, {})


@pytest.mark.parametrize(("answer", "reward"), [(RIGHT, 1.0), (NEAR, 0.9), (WRONG, 0.0)])
async def test_a_failed_action_counts_for_nothing_where_the_switch_says_so(answer: str, reward: float) -> None:
    rules = HALVES.model_copy(update={"failed_tool_scores_zero": False})
    assert (await graded(answer, "failed", rules)).reward == pytest.approx(reward)


async def test_components_are_each_channels_share() -> None:
    found = await graded(NEAR, "used", MOSTLY_JUDGE)
    assert found.reward_components == pytest.approx({"rule": 0.2, "judge": 0.75})
    assert (found.details["rule_score"], found.details["judge_score"]) == (pytest.approx(0.8), 1.0)


@pytest.mark.parametrize(
    ("answer", "action", "weight", "trainer"),
    [
        (RIGHT, "none", 0.7, 0.7),
        (NEAR, "none", 0.5, 0.4),
        (WRONG, "none", 0.7, 0.0),
        (RIGHT, "used", 0.7, 1.0),
        (RIGHT, "unlisted", 0.7, 1.0),
        (RIGHT, "failed", 0.7, 0.0),
        (RIGHT, "none", 0.0, 0.0),
        (RIGHT, "none", 1.0, 1.0),
    ],
)
async def test_no_action_weighs_less_for_a_trainer_alone(
    answer: str, action: str, weight: float, trainer: float
) -> None:
    found = await graded(answer, action, RewardRules(no_tool_weight=weight))
    plain = await graded(answer, action)
    assert found.reward == plain.reward
    assert found.trainer_reward == pytest.approx(trainer)
    assert set(found.shaping) == ({"no_tool"} if action == "none" and weight != 1 and answer != WRONG else set())


@pytest.mark.parametrize("action", ACTIONS)
async def test_no_final_answer_is_the_models_doing_and_asks_no_judge(action: str) -> None:
    judge = YesOrNo()
    found = await graded(None, action, HALVES, judge)
    assert found.failure is not None
    assert (found.reward, found.failure.kind, judge.asked) == (0.0, FailureKind.NO_FINAL_ANSWER, [])
    assert found.details["extracted_answer"] is None


async def test_the_judge_is_shown_question_gold_and_answer_and_not_asked_for_a_failed_action() -> None:
    judge = YesOrNo()
    await graded(NEAR, "used", HALVES, judge)
    await graded(NEAR, "failed", HALVES, judge)
    (asked,) = judge.asked
    assert (asked.question, asked.gold, asked.answer) == (BARS.question, "20", NEAR)


async def test_a_judge_without_a_verdict_masks_with_every_column() -> None:
    with pytest.raises(JudgeFailed) as failed:
        await graded(RIGHT, "used", HALVES, Speechless())
    assert (failed.value.kind, failed.value.details["judge_attempts"]) == (FailureKind.JUDGE_UNPARSEABLE, 2)
    assert failed.value.details["rule_score"] == 1.0


@pytest.mark.parametrize(
    ("answer", "exact", "lenient", "strict"),
    [("20", 1.0, 1.0, 1.0), ("16", 0.0, 0.8, 0.8), ("20||30||40||50", 0.0, 1.0, 0.25)],
)
async def test_a_list_of_guesses_pays_only_without_the_switch(
    answer: str, exact: float, lenient: float, strict: float
) -> None:
    for counts, reward in ((False, lenient), (True, strict)):
        found = await graded(answer, "used", RewardRules(extra_answers_count=counts))
        assert found.reward == pytest.approx(reward)
        assert found.details["exact_match"] == exact


async def test_recall_of_the_evidence_is_a_column() -> None:
    used, none = await graded(RIGHT, "used"), await graded(RIGHT, "none")
    assert [used.details[name] for name in ("roi_recall", "roi_precision", "roi_iou")] == [1.0, 1.0, 1.0]
    assert [none.details[name] for name in ("roi_recall", "roi_precision", "roi_iou")] == [0.0, None, 0.0]


@pytest.mark.parametrize(
    "weights", [{"rule": 0, "judge": 0}, {"rule": -1, "judge": 2}, {"rule": math.inf}, {"rule": 1e308, "judge": 1e308}]
)
def test_weights_that_make_no_mean_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        ChannelWeights.model_validate(weights)
