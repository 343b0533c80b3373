"""Against every way to draw k of n rollouts."""

from collections import Counter
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.statistics.majority import Vote, majority_at_k

RIGHT = Vote(True, "12")
votes_of_a_task = st.lists(
    st.sampled_from([RIGHT, Vote(False, "a"), Vote(False, "b"), Vote(False, "c"), Vote(False, None)]),
    min_size=1,
    max_size=7,
)


def won(drawn: tuple[Vote, ...]) -> float:
    counts = Counter("right" if vote.is_right else vote.answer for vote in drawn if vote.is_right or vote.answer)
    most = max(counts.values(), default=0)
    first = [answer for answer, count in counts.items() if count == most]
    return 1 / len(first) if "right" in first else 0.0


@settings(max_examples=60)
@given(votes_of_a_task, st.data())
def test_it_is_the_mean_over_all_draws(votes: list[Vote], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(votes)))
    assert majority_at_k(votes, k) == pytest.approx(fmean(map(won, combinations(votes, k))))


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([RIGHT, Vote(True, r"\text{twelve}"), Vote(False, "13")], 1.0),
        ([RIGHT, Vote(False, "13"), Vote(False, " **13** ")], 0.0),
        ([RIGHT, Vote(False, "13")], 0.5),
        ([RIGHT, Vote(False, None), Vote(False, None)], 1.0),
        ([Vote(False, None)], 0.0),
    ],
    ids=["right answers are one", "wrong ones by their plain text", "a tie", "silence is no vote", "nobody votes"],
)
def test_of_all_rollouts_the_commonest_answer_counts(votes: list[Vote], expected: float) -> None:
    assert majority_at_k(votes, len(votes)) == expected
