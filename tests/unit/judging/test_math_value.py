"""Answers compared by value: what is the same, what is not, and what has none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_core.judging.math_value import MathValue, read_value, same_value

SAME = [
    ("5\\sqrt{3}", "5 \\sqrt { 3 }"),
    ("5\\sqrt{3}", "5√3"),
    ("5\\sqrt{3}", "5*sqrt(3)"),
    ("5\\sqrt{3}", "$5\\sqrt3$"),
    ("5\\sqrt{3}", "\\sqrt{75}"),
    ("5\\sqrt{3}", "8.66"),
    ("5\\sqrt{3}", "8.660"),
    ("5\\sqrt{3}", "y = 5\\sqrt{3}"),
    ("\\frac{2\\sqrt{2}}{5}", "\\frac { 2 \\sqrt { 2 } } { 5 }"),
    ("\\frac{2\\sqrt{2}}{5}", "2\\sqrt{2}/5"),
    ("\\frac{2\\sqrt{2}}{5}", "\\dfrac{2\\sqrt{2}}{5}"),
    ("\\frac{2\\sqrt{2}}{5}", "\\frac{4}{5\\sqrt{2}}"),
    ("\\frac{2\\sqrt{2}}{5}", "0.57"),
    ("\\frac{1}{2}", "\\frac12"),
    ("\\frac{1}{2}", "0.5"),
    ("2.5", "2\\frac{1}{2}"),
    ("2.5", "\\frac{5}{2}"),
    ("3\\frac{\\sqrt{3}}{2}", "\\frac{3\\sqrt{3}}{2}"),
    ("40", "40^\\circ"),
    ("40", "40^{\\circ}"),
    ("40", "40°"),
    ("40", "40 degrees"),
    ("40", "m\\angle A = 40"),
    ("40", "\\angle ABC = 40^\\circ"),
    ("40", "x=40."),
    ("30", "AB = 30"),
    ("30", "30 cm"),
    ("30 cm", "30cm"),
    ("30", "30 units"),
    ("30", "30\\text{ units}"),
    ("24 square units", "24"),
    ("24 cm^2", "24 square centimeters"),
    ("36\\pi", "36π"),
    ("36\\pi", "36 \\pi \\text{ ft}^2"),
    ("36\\pi", "113.10"),
    ("28.3", "9\\pi"),
    ("28.3", "28.27"),
    ("1,234", "1234"),
    ("-3", "−3"),
    ("2^{3}", "8"),
    ("\\sqrt[3]{27}", "3"),
    ("(1+2)(3)", "9"),
    ("x = y = 12", "12"),
    ("6", "\\left( 6 \\right)"),
    ("2\\sqrt{221}", "2\\sqrt{221} \\approx 29.7"),
    ("2\\sqrt{221}", "x = 2\\sqrt{221} = 29.73 \\text{ cm}"),
    ("12", "A = bh = 3 \\cdot 4 = 12"),
    ("12", "A = bh = 12"),
    ("12", "3 \\cdot 4 = 12"),
    ("40", "m\\angle 1 = 40^\\circ"),
    ("35", "\\textbf{35}"),
    ("35", "\\mathbf{\\text{35}}"),
    ("35", "**35**"),
    ("16", "\\boxed{16}"),
    ("30 cm", "\\boxed{30\\text{ cm}}"),
    ("\\frac{1}{2}", "\\mathbf{\\frac{1}{2}}"),
    ("16", "16 (approximately)"),
    ("16", "about 16"),
    ("16.2", "\\text{approximately } 16.21"),
    ("0.5", "0.504"),
    ("1.7", "\\sqrt{3}"),
    ("0.07", "\\frac{1}{15}"),
]
DIFFERENT = [
    ("5\\sqrt{3}", "5\\sqrt{2}"),
    ("5\\sqrt{3}", "8.7"),
    ("5\\sqrt{3}", "9"),
    ("5\\sqrt{3}", "8.67"),
    ("5\\sqrt{3}", "53"),
    ("13.5", "13"),
    ("13.5", "14"),
    ("13.5", "13.44"),
    ("28.27", "28.3"),
    ("12", "12.004"),
    ("30 cm", "30 m"),
    ("24 cm^2", "24 cm"),
    ("40", "40 or 50"),
    ("40", "40, 50"),
    ("40", "x"),
    ("12", "1 2 3"),
    ("0.5", "0.05"),
    ("3", "3 + x"),
    ("0.5", "0.54"),
    ("0.5", "\\frac{9}{20}"),
    ("29.7", "2\\sqrt{221} \\approx 31.7"),
    ("5", "2x = 5"),
    ("5", "x = 5 = y"),
    ("5", "x = 3 = 5"),
    ("5", "x = 3 or x = 5"),
    ("5", "x = 3, y = 5"),
    ("30 cm", "30 cm = 30 m"),
    ("16", "16 (or 17)"),
]
WITHOUT_VALUE = [
    "", " ", "x", "=", "cm", "1/0", "\\sqrt{-1}", "\\frac{1}", "((1)", "1)", "^", "2^99", "9" * 16, "1..2", "5 apples",
    "__import__('os')", "9**9**9", "1e5", "\\sqrt", "-" * 100, "(" * 90 + "1" + ")" * 90, "1" * 500, "0^{-1}",
    "\\frac{}{}", "(-8)^{0.5}", "inf", "nan",
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_the_same_value_in_other_words(gold: str, answer: str) -> None:
    assert same_value(gold, answer)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_another_value(gold: str, answer: str) -> None:
    assert not same_value(gold, answer)


@pytest.mark.parametrize("text", WITHOUT_VALUE)
def test_what_is_no_value_has_none(text: str) -> None:
    assert read_value(text) is None
    assert not same_value(text, text)


def test_a_value_says_its_unit_and_its_decimals() -> None:
    assert read_value("x = 13.50 cm") == MathValue(13.5, decimals=2, unit="cm")


@given(st.text(alphabet="0123456789.+-*/^(){}[]\\sqrtfacpi cm=°√π,$", max_size=250))
def test_any_text_has_a_finite_value_or_none(text: str) -> None:
    value = read_value(text)
    assert value is None or math.isfinite(value.number)


@given(whole=st.integers(1, 99), under=st.integers(2, 99), below=st.integers(1, 99))
def test_a_surd_over_a_number_is_worth_what_arithmetic_says(whole: int, under: int, below: int) -> None:
    value = read_value(f"\\frac{{{whole}\\sqrt{{{under}}}}}{{{below}}}")
    assert value is not None
    assert math.isclose(value.number, whole * math.sqrt(under) / below)
