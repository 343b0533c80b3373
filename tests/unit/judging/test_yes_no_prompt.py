"""A judge of two tokens: what counts as one of them, and that nothing else does."""

import pytest

from gym_core.errors import FailureKind
from gym_core.judging.contract import GradingInput, JudgeFailed, VerdictLabel
from gym_core.judging.grader_prompt import ChatMessage
from gym_core.judging.llm_judge import ChatAnswer, LlmJudge
from gym_core.judging.yes_no_prompt import NO, REASK, SYSTEM, YES, parse_yes_no

ASKED = GradingInput(question="Which?", gold="a|||b", answer="b||a")


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        (YES, VerdictLabel.EQUIVALENT),
        (NO, VerdictLabel.DIFFERENT),
        (f"The lists agree.\n{YES}\n", VerdictLabel.EQUIVALENT),
        (f"<think>{YES}? No, b is missing.</think>\n{NO}", VerdictLabel.DIFFERENT),
    ],
)
def test_the_token_at_the_end_counts(reply: str, label: VerdictLabel) -> None:
    assert parse_yes_no(reply).verdict is label


@pytest.mark.parametrize(
    "reply", ["", "yes", "YES", "<|yes|>", f"{YES}.", f"{YES} {NO}", f"not {YES} but {NO}", "True"]
)
def test_anything_else_is_no_verdict(reply: str) -> None:
    with pytest.raises(ValueError, match="does not end in"):
        parse_yes_no(reply)


class Endpoint:
    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[list[ChatMessage]] = []

    async def complete(self, messages: list[ChatMessage], *, max_tokens: int, temperature: float) -> ChatAnswer:
        self.asked.append(list(messages))
        return ChatAnswer(self.replies.pop(0))


async def test_a_reply_without_a_token_is_asked_again_and_then_none_is_made_up() -> None:
    endpoint = Endpoint("hm", YES, "hm", "hm")
    judge = LlmJudge(endpoint, instructions=SYSTEM, read_reply=parse_yes_no, reask=REASK)
    verdict = await judge.grade(ASKED)
    assert (verdict.label, verdict.attempts) == (VerdictLabel.EQUIVALENT, 2)
    assert endpoint.asked[0][0]["content"] == SYSTEM
    assert endpoint.asked[1][-1]["content"] == REASK
    with pytest.raises(JudgeFailed) as failed:
        await judge.grade(ASKED)
    assert failed.value.kind is FailureKind.JUDGE_UNPARSEABLE
