"""The rule channel, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources_servers.chart_focus.answers import ANSWER_SEPARATOR, final_answer, listed, rule_score, similarity


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("ANSWER: It is 5. FINAL ANSWER: 5. TERMINATE", "5"),
        ("FINAL ANSWER: 5 TERMINATE", "5"),
        ("FINAL ANSWER: 5", "5"),
        ("FINAL ANSWER: 5\nTERMINATE", "5"),
        ("FINAL ANSWER:\n5\n\nTERMINATE", "5"),
        ("**FINAL ANSWER:** 5. TERMINATE", "5"),
        ("**FINAL ANSWER**: 5. TERMINATE", "5"),
        ("__FINAL ANSWER:__ 5", "5"),
        ("FINAL ANSWER: a || b. TERMINATE", "a || b"),
        ("FINAL ANSWER: 1.5. TERMINATE and more", "1.5"),
        ("FINAL ANSWER: 4. TERMINATE FINAL ANSWER: 5. TERMINATE", "5"),
        ("FINAL ANSWER: Dr. No. TERMINATE", "Dr. No"),
        ("FINAL ANSWER: TERMINATE", None),
        ("FINAL ANSWER: . TERMINATE", None),
        ("ANSWER: 5", None),
        ("", None),
    ],
)
def test_the_final_answer(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("gold", "said", "score"),
    [
        ("5", "5", 1.0),
        ("5", "5.0", 1.0),
        ("0", "0", 1.0),
        ("0", "5", 0.0),
        ("100", "90", 0.9),
        ("90", "100", 0.9),
        ("10", "-10", 0.0),
        ("1,200", "1200", 1.0),
        ("12%", "12", 1.0),
        ("$3", "3", 1.0),
        ("-4", "-2", 0.5),
        ("Blue", " blue ", 1.0),
        ("Blue", "Bluer", 0.0),
        ("North  Sea", "north sea", 1.0),
        ("5", "five", 0.0),
        ("2019", "2019 (the last)", 0.0),
        ("1", "1e5", 0.0),
        ("1", "inf", 0.0),
        ("U.S.", "U.S", 1.0),  # a full stop at an answer's end is the sentence's
        ("U.S", "U.S.", 1.0),
        ("12%.", "12", 1.0),
        ("1.5", "1.", 1 / 1.5),
        ("-4", "\u22124", 1.0),
        ("Caf\u00e9", "cafe\u0301", 1.0),
    ],
)
def test_how_alike_two_answers_are(gold: str, said: str, score: float) -> None:
    assert similarity(gold, said) == pytest.approx(score)


@pytest.mark.parametrize(
    ("golds", "said", "score", "strict"),
    [
        ("20", "20", 1.0, 1.0),
        ("20", "10", 0.5, 0.5),
        ("a|||b", "b||a", 1.0, 1.0),
        ("a|||b", "a", 0.5, 0.5),
        ("a|||b", "a||a", 0.5, 0.5),  # a gold is matched once
        ("a", "a||b||c||d", 1.0, 0.25),
        ("a|||b|||c|||10", "10 || x || a", 0.5, 0.5),
        ("10|||20", "20||15", (1 + 10 / 15) / 2, (1 + 10 / 15) / 2),
        ("a", "", 0.0, 0.0),
        ("U.S.|||U.K.", "U.K. || U.S", 1.0, 1.0),
    ],
)
def test_sum_of_the_best_matches_over_the_golds(golds: str, said: str, score: float, strict: float) -> None:
    right, answers = golds.split("|||"), listed(said, ANSWER_SEPARATOR)
    assert rule_score(right, answers) == pytest.approx(score)
    assert rule_score(right, answers, count_extra=True) == pytest.approx(strict)


def test_lists_are_read_up_to_a_bound() -> None:
    assert listed(" a ||| b || || 'c'", ANSWER_SEPARATOR) == ["a", "b", "c"]
    assert len(listed("||".join(["x"] * 1000), ANSWER_SEPARATOR)) == 100


texts = st.text(alphabet="0123456789.,-%ab |", max_size=12)


@given(st.lists(texts, min_size=1, max_size=5), st.lists(texts, max_size=6), st.booleans())
def test_a_score_is_a_share_and_right_answers_have_all_of_it(golds: list[str], said: list[str], strict: bool) -> None:
    assert 0.0 <= rule_score(golds, said, count_extra=strict) <= 1.0
    assert rule_score(golds, golds[::-1], count_extra=strict) == pytest.approx(1.0)
