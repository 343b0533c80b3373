"""Answers without their dress: LaTeX, markdown, typographic variants and number words made plain."""

import re
import unicodedata

_WRAPPER = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mathsf|operatorname|boxed)\s{0,4}\{([^{}]{0,500})\}"
)
_COMMANDS = {
    r"\left": "",
    r"\right": "",
    r"\quad": " ",
    r"\qquad": " ",
    r"\rightarrow": "->",
    r"\to": "->",
    r"\lt": "<",
    r"\gt": ">",
    r"\times": "*",
    r"\cdot": "*",
    r"\div": "/",
    r"\{": "{",
    r"\}": "}",
    r"\#": "#",
    r"\%": "%",
    r"\&": "&",
    r"\_": "_",
}
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)")
_VARIANTS = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d", '"'),
        **dict.fromkeys("\u3001\uff0c", ","),
        "\u2192": "->",
        "\u00d7": "*",
        "\u00f7": "/",
        "$": "",
    }
)

# fmt: off
_UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINAL_UNITS = [
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth",
]
# fmt: on

CARDINAL_WORDS = {word: value for value, word in enumerate(_UNITS)} | {
    word: 20 + 10 * index for index, word in enumerate(_TENS)
}
CARDINAL_WORDS |= {
    f"{tens}-{_UNITS[unit]}": 20 + 10 * index + unit for index, tens in enumerate(_TENS) for unit in range(1, 10)
}
ORDINAL_WORDS = {word: value for value, word in enumerate(_ORDINAL_UNITS)}
_ORDINAL_DIGITS = re.compile(r"(\d{1,6})(?:st|nd|rd|th)")


def plain_text(text: str) -> str:
    """One line, lower case, single spaces; no LaTeX or markdown dress, no full stop at the end."""
    text = unicodedata.normalize("NFKC", text.translate(_VARIANTS))
    while (unwrapped := _WRAPPER.sub(r"\1", text)) != text:
        text = unwrapped
    text = _COMMAND.sub(lambda command: _COMMANDS.get(command.group(), " "), text)
    text = re.sub(r"\*\*|__", "", text)
    text = " ".join(text.split()).casefold()
    return text.strip("\"' ").removesuffix(".").strip("\"' ")


def whole_number(token: str) -> int | None:
    """Value of "12", "-3", "+4", "1,234", "12.0" or "twelve" in plain text; None when it is no whole number."""
    if token in CARDINAL_WORDS:
        return CARDINAL_WORDS[token]
    if not re.fullmatch(r"[+-]?(?:\d{1,15}|\d{1,3}(?:,\d{3}){1,4})(?:\.0{1,6})?", token):
        return None
    return int(token.replace(",", "").split(".")[0])


def ordinal_number(token: str) -> int | None:
    """Value of "second" or "2nd" in plain text."""
    digits = _ORDINAL_DIGITS.fullmatch(token)
    return int(digits[1]) if digits else ORDINAL_WORDS.get(token)
