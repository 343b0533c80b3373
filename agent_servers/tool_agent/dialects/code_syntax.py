"""Whether a piece of a text is Python, within an allowance for the whole text, so that no text takes long."""

import ast
import re
import warnings
from dataclasses import dataclass, field
from enum import Enum, auto

_MAX_CHARS = 20_000
"""Longer code is not looked at."""
_MAX_ALL_CHARS = 200_000
"""Of one text, in all."""
_LOOK_CHARS = 100
"""What a look at nothing takes, as characters."""


class Syntax(Enum):
    GOOD = auto()
    IDLE = auto()
    """It parses and does nothing: a lone comment is more likely the beginning of more."""
    BROKEN = auto()
    UNSEEN = auto()
    """Too long, or the allowance is used up."""


@dataclass
class SyntaxReader:
    text: str
    left: int = _MAX_ALL_CHARS
    known: dict[tuple[int, int], Syntax] = field(default_factory=dict)

    @property
    def is_spent(self) -> bool:
        return self.left < _LOOK_CHARS

    def look(self, begin: int, end: int) -> Syntax:
        """As this Python reads it, dedented."""
        found = self.known.get((begin, end))
        if found is None:
            cost = end - begin + _LOOK_CHARS
            if end - begin > _MAX_CHARS or self.is_spent:
                return Syntax.UNSEEN
            self.left -= cost
            found = self.known[begin, end] = _syntax_of(dedented(self.text[begin:end]))
        return found


def _syntax_of(code: str) -> Syntax:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Syntax.GOOD if ast.parse(code).body else Syntax.IDLE
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Syntax.BROKEN


def dedented(code: str) -> str:
    """Without the indentation of its first line, where lines have that: code whose first line is indented is none."""
    first = re.search(r"^([ \t]*)[^\s]", code, re.MULTILINE)
    margin = first[1] if first else ""
    return re.sub(rf"^{re.escape(margin)}", "", code, flags=re.MULTILINE) if margin else code
