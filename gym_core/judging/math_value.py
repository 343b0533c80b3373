r"""Mathematical answers by value: `5\sqrt{3}`, `\frac{2\sqrt2}{5}`, `40^\circ`, `x = 13.5 cm`, `2\frac{1}{2}`.

A small parser of its own for arithmetic in LaTeX and plain text: nothing that a model wrote is evaluated as code. What
it does not understand in full has no value. Bounded in length, depth and the size of numbers.
"""

import math
import re
from dataclasses import dataclass, replace

MAX_CHARS = 200
_MAX_DEPTH = 20
_MAX_MAGNITUDE = 1e15
_MAX_EXPONENT = 20
_EXACT = 1e-9
"""Relative: two ways to write one value differ by rounding alone."""
_LEAST_DECIMALS = 2
"""Of an answer that rounds an exact gold: 8.66 is 5\\sqrt{3}, 8.7 and 9 are not."""
_ROUGH = 0.02
"""Relative: so near an answer must be to a gold of one decimal besides. That of a small number leaves much room: all
from 0.45 to 0.55 is 0.5 by its decimals, and a wrong answer is likelier there than a rounded gold."""


@dataclass(frozen=True)
class MathValue:
    number: float
    decimals: int = 0
    """Digits behind the point where it is one decimal number, which may have been rounded; 0 for all else."""
    unit: str = ""
    """"degree", "percent", "cm", "cm^2"; "" where none is written."""


def same_value(gold: str, answer: str) -> bool:
    """Whether both have a value, and the same one: exactly, or one is the other rounded to its decimals. Units that are
    written on both sides must agree."""
    wanted, given = read_value(gold), read_value(answer)
    if wanted is None or given is None or (wanted.unit and given.unit and wanted.unit != given.unit):
        return False
    apart = abs(wanted.number - given.number)
    if apart <= _EXACT * max(1e-6, abs(wanted.number)):
        return True
    if wanted.decimals and apart <= _half_unit(wanted.decimals):
        is_near = wanted.decimals >= _LEAST_DECIMALS or apart <= _ROUGH * abs(wanted.number)
        return is_near and (given.decimals == 0 or given.decimals > wanted.decimals)
    return given.decimals >= _LEAST_DECIMALS and not wanted.decimals and apart <= _half_unit(given.decimals)


def read_value(text: str) -> MathValue | None:
    """None for what is no single value, is too long, or is nothing that this parser knows.

    Of several sides, as in `x = 2\\sqrt{221} \\approx 29.7`, the first that has a value: it is the least rounded.
    """
    if len(text) > MAX_CHARS:
        return None
    first, *others = _plain(text).split("=")
    if not others:
        return _read_side(first)
    if any(_SEVERAL.search(side) for side in (first, *others)):
        return None
    values = [_read_side(side) for side in others]
    if not _NAME.fullmatch(first):
        values.insert(0, _read_side(first))
        if values[0] is None:
            return None  # "2x = 10"
    return _agreed(values)


def _agreed(values: list[MathValue | None]) -> MathValue | None:
    """One value for all sides; None where they differ by more than rounding, or where the last one has none: what
    stands between, as in "A = bh = 12", may be a formula."""
    known = [value for value in values if value is not None]
    if values[-1] is None:
        return None
    value, units = known[0], {side.unit for side in known} - {""}
    if len(units) > 1 or any(abs(side.number - value.number) >= 10**-side.decimals for side in known):
        return None
    return replace(value, unit=units.pop() if units else "")


def _read_side(text: str) -> MathValue | None:
    bare, unit = _without_unit(text.strip())
    tokens = _TOKEN.findall(bare)
    if not tokens or "".join(tokens) != bare.replace(" ", ""):
        return None
    try:
        number = _Parser(tokens).whole()
    except (ValueError, ArithmeticError):
        return None
    if isinstance(number, complex) or not math.isfinite(number) or abs(number) > _MAX_MAGNITUDE:
        return None
    decimal = re.fullmatch(r"-?\d*\.(\d+)", bare.replace(" ", ""))
    return MathValue(number, len(decimal[1]) if decimal else 0, unit)


def _half_unit(decimals: int) -> float:
    return float(0.5 * 10**-decimals * (1 + 1e-6))


# -- dress ------------------------------------------------------------------

_ABOUT = r"(?:approximately|approx\.?|about|roughly)"
_FONT = r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it|sf)|boldsymbol|operatorname|boxed)\s{0,4}"
_IN_FONT = re.compile(_FONT + r"\{([^{}]{0,100})\}")
_FONT_OF_MORE = re.compile(_FONT + r"(?=\{)")
"""Around what has braces itself; these are left, and read as brackets."""
_REPLACED = [
    (re.compile(r"[\u2010-\u2015\u2212]"), "-"),
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\(?:left|right|displaystyle|,|;|:|!| )|\$|~|\\[()\[\]]"), " "),
    (re.compile(r"\^\s{0,4}\{\s{0,4}\\(?:circ|degree)\s{0,4}\}|\^?\s{0,4}\\(?:circ|degree)|\u00b0"), " degree "),
    (re.compile(r"\\%|%"), " percent "),
    (re.compile(r"\*\*"), " "),
    (re.compile(r"\\(?:cdot|times)|[\u00b7\u00d7]"), "*"),
    (re.compile(r"\\div|\u00f7"), "/"),
    (re.compile(r"\\pi\b|\u03c0|\bpi\b"), " pi "),
    (re.compile(r"\u221a"), r"\\sqrt "),
    (re.compile(r"(?<!\\)sqrt"), r"\\sqrt "),
    (re.compile(r"\u00b2"), "^2"),
    (re.compile(r"\\approx|\u2248"), "="),
    (re.compile(rf"\(\s?{_ABOUT}\s?\)|(?<![A-Za-z\\]){_ABOUT}(?![A-Za-z])"), " "),
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),
]  # fmt: skip
_NAME = re.compile(r"(?:(?:\\angle|\u2220)\s?\d{1,2}|[A-Za-z\\{}\s\u2220\u25b3])*")
"""Of a quantity, such as "m\\angle ABC": letters and commands; of numbers that of an angle alone."""
_SEVERAL = re.compile(r"[,;]|\b(?:or|and|not)\b")
"""More than one quantity: "x = 3, y = 5"."""
_UNIT_WORDS = {
    **dict.fromkeys(["degree", "degrees", "deg"], "degree"),
    "percent": "percent",
    **dict.fromkeys(["unit", "units", "u"], ""),
    **dict.fromkeys(["mm", "millimeter", "millimeters", "millimetres"], "mm"),
    **dict.fromkeys(["cm", "centimeter", "centimeters", "centimetres"], "cm"),
    **dict.fromkeys(["m", "meter", "meters", "metre", "metres"], "m"),
    **dict.fromkeys(["km", "kilometer", "kilometers", "kilometres"], "km"),
    **dict.fromkeys(["in", "inch", "inches"], "in"),
    **dict.fromkeys(["ft", "foot", "feet"], "ft"),
    **dict.fromkeys(["yd", "yard", "yards"], "yd"),
    **dict.fromkeys(["mi", "mile", "miles"], "mi"),
}
_UNIT = re.compile(
    r"(?<![A-Za-z\\])(?:(?P<shape>square|sq\.?|cubic|cu\.?) )?(?<![A-Za-z\\])(?P<word>[a-z]{1,11})\.?\s?"
    r"(?:\^\s?\{?\s?(?P<power>[23])\s?\}?)?$"
)
_POWER_OF = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}


def _plain(text: str) -> str:
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    while (bare := _IN_FONT.sub(r" \1 ", text)) != text:
        text = bare
    text = _FONT_OF_MORE.sub(" ", text)
    return " ".join(text.split()).removesuffix(".").strip()


def _without_unit(text: str) -> tuple[str, str]:
    """The number's text, and the unit behind it."""
    found = _UNIT.search(text)
    if not found or not found.start() or found["word"] not in _UNIT_WORDS:
        return text, ""
    unit = _UNIT_WORDS[found["word"]]
    power = found["power"] or _POWER_OF.get((found["shape"] or "").removesuffix("."), "")
    return text[: found.start()].strip(), f"{unit}^{power}" if unit and power else unit


# -- arithmetic -------------------------------------------------------------

_TOKEN = re.compile(r"\d{1,15}(?:\.\d{1,15})?|\.\d{1,15}|\\frac|\\sqrt|pi|[-+*/^(){}\[\]]")


_PROPER_FRACTION = re.compile(r"\\frac\{(?P<top>\d+)\}\{(?P<bottom>\d+)\}")


class _Parser:
    """Recursive descent over the tokens; ValueError for what does not fit."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> float:
        value = self._sum()
        if self._at < len(self._tokens):
            raise ValueError(f"unexpected {self._tokens[self._at]}")
        return value

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, token: str = "") -> str:
        found = self._next()
        if not found or (token and found != token):
            raise ValueError(f"expected {token or 'more'}")
        self._at += 1
        return found

    def _sum(self) -> float:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        sign = -1.0 if self._next() in ("+", "-") and self._take() == "-" else 1.0
        value = sign * self._product()
        while self._next() in ("+", "-"):
            value += self._product() if self._take() == "+" else -self._product()
        self._depth -= 1
        return value

    def _product(self) -> float:
        value = self._power()
        while token := self._next():
            if token == "*":
                self._take()
                value *= self._power()
            elif token == "/":
                self._take()
                value /= self._power()
            elif token in ("(", "{", "\\sqrt", "\\frac", "pi"):  # "5\\sqrt{3}"
                value *= self._power()
            else:
                break
        return value

    def _power(self) -> float:
        base = self._atom()
        if self._next() != "^":
            return base
        self._take()
        exponent = -self._atom() if self._next() == "-" and self._take() else self._atom()
        if abs(exponent) > _MAX_EXPONENT:
            raise ValueError("the exponent is too large")
        return float(math.pow(base, exponent))

    def _atom(self) -> float:
        token = self._take()
        if token in _CLOSING:
            value = self._sum()
            self._take(_CLOSING[token])
            return value
        if token == "pi":
            return math.pi
        if token == "\\frac":
            return self._operand() / self._operand()
        if token == "\\sqrt":
            degree = self._root_degree()
            return float(math.pow(self._operand(), 1 / degree))
        if token[0].isdigit() or token[0] == ".":
            return self._number(token)
        raise ValueError(f"unexpected {token}")

    def _number(self, token: str) -> float:
        """With the fraction of a mixed number: an integer directly before a fraction of integers below 1."""
        following = "".join(self._tokens[self._at : self._at + 7])
        mixed = _PROPER_FRACTION.match(following) if token.isdigit() else None
        if mixed and int(mixed["top"]) < int(mixed["bottom"]):
            self._at += 7
            return int(token) + int(mixed["top"]) / int(mixed["bottom"])
        return float(token)

    def _operand(self) -> float:
        """Of a command: in braces or brackets, or one token, of which TeX takes the first digit alone."""
        token = self._next()
        if token.isdigit() and len(token) > 1 and self._at and self._tokens[self._at - 1] == "\\frac":
            self._tokens[self._at : self._at + 1] = [token[0], token[1:]]
        return self._atom()

    def _root_degree(self) -> float:
        if self._next() != "[":
            return 2.0
        self._take()
        degree = self._sum()
        self._take("]")
        if not 1 <= degree <= _MAX_EXPONENT:
            raise ValueError("no root of that degree")
        return degree


_CLOSING = {"(": ")", "{": "}"}
