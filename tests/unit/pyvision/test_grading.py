"""The reward worked out by hand, every combination; the answer's forms; the ends of a rollout."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_core.errors import FailureKind
from gym_core.judging.contract import GradingInput, JudgeFailed, Verdict, VerdictLabel
from resources_servers.pyvision.answer import Form, read_answer
from resources_servers.pyvision.grading import Grader, PyVisionTask, Rules, ToolReward, answer_columns, grade
from resources_servers.pyvision.trajectory import EndReason, end_reason, tool_use
from tests.unit.pyvision.replies import Ran, Refused, Turn, Unrun, reply_of

TASK = PyVisionTask(question="How many?", expected_answer="7", data_source="counts")
RIGHT, WRONG = "So <answer>\\boxed{7}</answer>", "So <answer>\\boxed{8}</answer>"
RAISED = Ran("image_clue_0.dpi", "AttributeError: dpi", is_whole=False)
STOPPED = Ran("while True: pass", "TimeoutError", is_whole=False)
PADDING = "I am " + "very " * 250 + "sure: "


@pytest.mark.parametrize(
    ("turns", "said", "accuracy", "bonus"),
    [
        # R = R_acc + 0.1 n_tc [R_acc = 1]
        ((), RIGHT, 1.0, 0.0),
        ((Ran(),), RIGHT, 1.0, 0.1),
        ((Ran(), Ran("print(2)"), Ran("print(3)")), RIGHT, 1.0, 0.3),
        # Code that raised, or that the time limit stopped, was executed.
        ((RAISED,), RIGHT, 1.0, 0.1),
        ((Ran(), RAISED, STOPPED), RIGHT, 1.0, 0.3),
        # The same again is executed again: the published rule pays for it, a column tells.
        ((Ran(), Ran()), RIGHT, 1.0, 0.2),
        # A block that is none was not.
        ((Refused(),), RIGHT, 1.0, 0.0),
        ((Refused(), Ran(images=3)), RIGHT, 1.0, 0.1),
        # Without accuracy there is nothing.
        ((), WRONG, 0.0, 0.0),
        ((Ran(), Ran("print(2)"), RAISED), WRONG, 0.0, 0.0),
        # Too long, tags, two boxes: nothing, however right and with whatever use of tools.
        ((Ran(),), f"<answer>{PADDING}\\boxed{{7}}</answer>", 0.0, 0.0),
        ((Ran(),), "<answer><b>\\boxed{7}</b></answer>", 0.0, 0.0),
        ((Ran(),), "<answer>\\boxed{7}</answer> or <answer>\\boxed{8}</answer>", 0.0, 0.0),
        ((Ran(),), "<answer>\\boxed{7} or \\boxed{8}</answer>", 0.0, 0.0),
        ((Ran(),), "<answer>\\boxed{7\\boxed{7}}</answer>", 0.0, 0.0),
        ((Ran(),), "<answer></answer>", 0.0, 0.0),
        ((Ran(),), "<answer>\\boxed{}</answer>", 0.0, 0.0),
    ],
)
async def test_the_reward_is_as_worked_out_by_hand(
    turns: Sequence[Turn], said: str, accuracy: float, bonus: float
) -> None:
    verification = await grade(TASK, reply_of(*turns, said=said), Rules())
    assert (verification.reward, verification.reward_components) == (accuracy, {"accuracy": accuracy})
    assert verification.shaping == {"tool_use": pytest.approx(bonus)}
    assert verification.trainer_reward == pytest.approx(accuracy + bonus)
    assert (verification.failure, verification.details["end_reason"]) == (None, "DONE")


@pytest.mark.parametrize(
    ("rate", "cap", "bonus"), [(0.1, 2, 0.2), (0.1, 0, 0.0), (0.5, 20, 1.5), (0.0, 30, 0.0), (0.1, 3, 0.3)]
)
async def test_rate_and_cap_of_the_bonus_are_the_configurations(rate: float, cap: int, bonus: float) -> None:
    rules = Rules(tool_reward=ToolReward(rate=rate, max_turns=cap))
    verification = await grade(TASK, reply_of(Ran(), RAISED, Ran("x"), said=RIGHT), rules)
    assert (verification.reward, verification.shaping) == (1.0, {"tool_use": pytest.approx(bonus)})


async def test_neither_code_nor_answer_scores_zero_and_pays_nothing() -> None:
    verification = await grade(TASK, reply_of(Ran(), said="It is \\boxed{7}."), Rules())
    assert verification.reward == 0.0
    assert verification.failure is not None
    assert (verification.failure.kind, verification.shaping) == (FailureKind.NO_FINAL_ANSWER, {})
    assert verification.details["end_reason"] == "ERROR_IN_ACTION"


@pytest.mark.parametrize(
    ("said", "text", "form"),
    [
        ("<answer>\\boxed{B}</answer>", "B", Form.BOXED),
        ("<answer>The answer is \\boxed{\\frac{1}{2}}.</answer>", "\\frac{1}{2}", Form.BOXED),
        ("<answer>\n B \n</answer>", "B", Form.BARE),
        ("<answer>\\boxed{B}", "B", Form.BOXED),
        ("<answer>x < y and y > z</answer>", "x < y and y > z", Form.BARE),
        ("I think \\boxed{C}, no: <answer>\\boxed{B}</answer>", "B", Form.BOXED),
        ("<think>into <answer>C</answer></think><answer>\\boxed{B}</answer>", "B", Form.BOXED),
        ("<answer>" + "7" * 999 + "</answer>", "7" * 999, Form.BARE),
        ("<answer>" + "7" * 1000 + "</answer>", None, Form.TOO_LONG),
        ("<answer><answer>B</answer></answer>", None, Form.TAGS),
        ("<answer>B<|im_end|></code></answer>", None, Form.TAGS),
        ("<answer>\\boxed{B</answer>", None, Form.EMPTY),
        ("\\boxed{B}", None, Form.NONE),
        ("", None, Form.NONE),
    ],
)
def test_the_answer_and_its_form(said: str, text: str | None, form: Form) -> None:
    found = read_answer(said)
    assert (found.text, found.form) == (text, form)


@given(st.text(alphabet="<>answer/ \\boxed{}7", max_size=80))
def test_no_text_breaks_the_reading(said: str) -> None:
    found = read_answer(said)
    assert (found.text is None) is (found.form not in (Form.BOXED, Form.BARE))


@pytest.mark.parametrize(
    ("ending", "error", "said", "reason"),
    [
        ("finished", None, RIGHT, EndReason.DONE),
        ("finished", None, WRONG, EndReason.DONE),
        ("finished", None, "I do not know.", EndReason.ERROR_IN_ACTION),
        ("finished", None, "<think>into <answer> it goes</think>Hm.", EndReason.ERROR_IN_ACTION),
        ("max_turns", "no_final_answer", "", EndReason.EXCEED_MAX_TURNS),
        ("tool_budget", "no_final_answer", "", EndReason.EXCEED_MAX_TURNS),
        ("image_budget", "no_final_answer", "", EndReason.EXCEED_MAX_IMAGE_NUM_32),
        ("token_budget", "output_cap", "", EndReason.OVER_LENGTH),
        ("token_budget", "output_cap", RIGHT, EndReason.OVER_LENGTH),
        ("context_limit", "context_limit", "", EndReason.OVER_LENGTH),
        ("output_cap", "output_cap", "<answer>\\boxed{7", EndReason.ERROR_IN_ACTION),
        ("empty_answer", "no_final_answer", "", EndReason.ERROR_IN_ACTION),
        ("timeout", "agent_timeout", "", EndReason.ERROR_IN_ACTION),
        ("tool_failed", "sandbox_lost", "", EndReason.ERROR_IN_ACTION),
        # Another harness, which says no ending.
        (None, "context_limit", "", EndReason.OVER_LENGTH),
        (None, "no_final_answer", "", EndReason.ERROR_IN_ACTION),
        (None, None, RIGHT, EndReason.DONE),
    ],
)
def test_every_ending_has_its_published_word(
    ending: str | None, error: str | None, said: str, reason: EndReason
) -> None:
    reply = reply_of(Ran(), Unrun(), said=said, ending=ending, error=error)
    assert end_reason(reply) is reason
    assert answer_columns(TASK, reply, Rules())["end_reason"] == reason.value


def test_turns_of_code_are_counted_by_what_came_of_them() -> None:
    same_in_other_dress = Ran("print( 1 )  # again")
    silent = Ran("x = 1", said="")
    picture = Ran("plt.show()", said="", images=2)
    use = tool_use(reply_of(Ran(), same_in_other_dress, RAISED, silent, picture, Refused(), Unrun(), said=RIGHT))
    assert (use.code_turns, use.code_turns_raised, use.code_turns_distinct) == (5, 1, 4)
    assert (use.code_turns_useful, use.format_failures, use.images_shown) == (2, 1, 2)


def test_a_model_cannot_print_itself_an_execution() -> None:
    forged = Ran("print('x')", said="Text Result (the code did not run to its end):\nText Result:")
    assert tool_use(reply_of(forged)).code_turns_raised == 0


class SayingJudge:
    def __init__(self, label: VerdictLabel) -> None:
        self.label = label
        self.asked: list[GradingInput] = []

    async def grade(self, grading: GradingInput) -> Verdict:
        self.asked.append(grading)
        return Verdict(label=self.label, reason="because", model="m")


@pytest.mark.parametrize(
    ("gold", "grader", "answer", "right", "asks"),
    [
        ("\\frac{3}{4}", Grader.MATH, "0.75", True, False),
        ("\\frac{3}{4}", Grader.MATCH, "0.75", False, False),
        ("(2,3)", Grader.MATH, "row 2, column 3", True, False),
        ("7", Grader.JUDGE, "seven", True, False),
        ("7", Grader.JUDGE, "8", False, False),
        ("a red car", Grader.JUDGE, "red car", True, False),
        ("a red car", Grader.JUDGE, "an automobile, red", True, True),
        ("a red car", Grader.MATCH, "an automobile, red", False, False),
    ],
)
async def test_a_judge_is_asked_only_where_a_row_wants_one_and_words_differ(
    gold: str, grader: Grader, answer: str, *, right: bool, asks: bool
) -> None:
    judge = SayingJudge(VerdictLabel.EQUIVALENT)
    task = PyVisionTask(question="What?", expected_answer=gold, grader=grader)
    verification = await grade(task, reply_of(said=f"<answer>\\boxed{{{answer}}}</answer>"), Rules(judge=judge))
    assert (verification.reward, len(judge.asked)) == (float(right), int(asks))
    assert verification.details["graded_by"] == grader.value
    assert verification.details["judge_verdict"] == ("equivalent" if asks else None)


async def test_the_data_source_names_the_grader() -> None:
    rules = Rules(
        default_grader=Grader.MATH, graders={"words": Grader.JUDGE}, judge=SayingJudge(VerdictLabel.DIFFERENT)
    )
    assert [rules.grader_of(TASK), rules.grader_of(TASK.model_copy(update={"data_source": "words"}))] == [
        Grader.MATH,
        Grader.JUDGE,
    ]


async def test_words_without_a_judge_are_masked_and_say_what_to_do() -> None:
    task = PyVisionTask(question="What?", expected_answer="a red car", grader=Grader.JUDGE)
    with pytest.raises(JudgeFailed, match="set judge_model_server") as caught:
        await grade(task, reply_of(said="<answer>\\boxed{an automobile}</answer>"), Rules())
    assert caught.value.details["extracted_answer"] == "an automobile"
