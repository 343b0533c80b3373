"""majority@k: how often the commonest answer of k tries is the right one."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gym_core.judging.plain_text import plain_text


@dataclass(frozen=True)
class Vote:
    """One measured rollout."""

    is_right: bool
    answer: str | None
    """None: nothing was answered, so nothing is voted for."""


def majority_at_k(votes: Sequence[Vote], k: int) -> float:
    """Expected share of k of a task's n >= k rollouts, drawn without order, whose commonest answer is right.

    All right answers are one answer, however they are worded; wrong ones are one when their plain texts are. Among
    answers with equally many votes one is drawn. Without any vote the task is wrong.
    """
    right = sum(vote.is_right for vote in votes)
    wrong = Counter(plain_text(vote.answer) for vote in votes if not vote.is_right and vote.answer is not None)
    silent = len(votes) - right - sum(wrong.values())
    won = sum(
        math.comb(right, mine) * _share_of_draws(list(wrong.values()), mine, others=k - mine, silent=silent)
        for mine in range(1, min(right, k) + 1)
    )
    return won / math.comb(len(votes), k)


def _share_of_draws(sizes: Sequence[int], mine: int, *, others: int, silent: int) -> float:
    """Ways to draw `others` of the wrong and silent votes so that no wrong answer has more than `mine` of them.

    A draw in which some have exactly as many counts for the right answer's share of the tie.
    """
    ways: dict[tuple[int, int], int] = {(0, 0): 1}  # (votes drawn, answers that tie) to ways
    for size in sizes:
        grown: dict[tuple[int, int], int] = {}
        for (drawn, ties), count in ways.items():
            for votes in range(min(size, mine, others - drawn) + 1):
                key = (drawn + votes, ties + (votes == mine))
                grown[key] = grown.get(key, 0) + count * math.comb(size, votes)
        ways = grown
    return sum(count * math.comb(silent, others - drawn) / (ties + 1) for (drawn, ties), count in ways.items())
