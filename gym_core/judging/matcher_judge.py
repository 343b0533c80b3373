"""The deterministic matcher as a judge: no server, no key, the same verdict every time."""

from gym_core.judging.contract import GradingInput, Verdict, VerdictLabel
from gym_core.judging.matching import AnswerKind, match


class MatcherJudge:
    """Says `unsure` where free texts differ: they may mean the same in other words."""

    async def grade(self, grading: GradingInput) -> Verdict:
        result = match(grading.gold, grading.answer, grading.answer_kind, grading.options)
        if result.equal:
            label = VerdictLabel.EQUIVALENT
        else:
            label = VerdictLabel.UNSURE if result.kind is AnswerKind.TEXT else VerdictLabel.DIFFERENT
        return Verdict(label=label, reason=f"{result.kind}: {result.reason}")
