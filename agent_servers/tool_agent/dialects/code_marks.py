"""Where fences and `<code>` tags stand in a text, in one pass and linear time. `code_spans` says what they mean."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

PYTHON = r"(?:ipython|python|py)\d?(?:\.\d{1,2})?"
MAX_INFO_CHARS = 200
"""A line that says more after its backticks opens no fence."""
_MAX_INDENT = 20
_INFO = re.compile(
    rf'[ \t]*{PYTHON}(?:[ \t]+[\w.-]+=(?:"[^"`]*"|[^\s"`]+)|[ \t]*\{{[^`{{}}]*\}})*[ \t\r]*', re.IGNORECASE
)
_NAMED = re.compile(rf"[ \t]*{PYTHON}(?![\w.])", re.IGNORECASE)
_NAME_ALONE = re.compile(rf"[ \t]*{PYTHON}[ \t\r]*", re.IGNORECASE)
_RUN = re.compile(r"`{3,}|~{3,}")
_TAG = re.compile(r"<(/?)code>", re.IGNORECASE)
_CLOSE = "</code>"
_QUOTES = frozenset("`'\"")


class Kind(Enum):
    TAG = auto()
    """`<code>`"""
    END_TAG = auto()
    QUOTED_END_TAG = auto()
    """Between two quotes or backticks: in code, or spoken of. A quoted `<code>` has no mark."""
    BARE = auto()
    """Backticks alone on their line: the end of a fence, if anything."""
    TAIL = auto()
    """Backticks that end a line of other text, which may be the last line of the code."""
    OPEN = auto()
    """A python fence on a line of its own."""
    LATE_OPEN = auto()
    """The same after text of its line."""
    ODD = auto()
    """A fence that names Python and goes on in another way, such as with code on the same line."""


@dataclass(frozen=True, slots=True)
class Mark:
    kind: Kind
    start: int
    end: int
    """Of a fence that opens: where its code begins."""
    line: int
    """Where its line begins; of a tag, its own start."""
    run: str = ""
    """The backticks or tildes."""


def is_info(info: str) -> bool:
    """Whether what follows the backticks names Python, and attributes of the block at most."""
    return _INFO.fullmatch(info) is not None


def find_marks(text: str, start: int) -> list[Mark]:
    """Of the text from `start`, in order."""
    return sorted([*_tags(text, start), *_fences(text, start)], key=lambda mark: mark.start)


def _tags(text: str, start: int) -> Iterator[Mark]:
    for found in _TAG.finditer(text, start):
        begin, end = found.span()
        is_quoted = text[begin - 1 : begin] in _QUOTES and text[begin - 1 : begin] == text[end : end + 1]
        if found[1]:
            yield Mark(Kind.QUOTED_END_TAG if is_quoted else Kind.END_TAG, begin, end, begin)
        elif not is_quoted:
            yield Mark(Kind.TAG, begin, end, begin)


def _fences(text: str, start: int) -> Iterator[Mark]:
    """At most two of a line: at its start and at its end."""
    line_end = start - 1
    runs: list[re.Match[str]] = []
    line = start
    for run in _RUN.finditer(text, start):
        if run.start() > line_end:
            yield from _of_line(text, line, line_end, runs)
            line = max(text.rfind("\n", max(line_end, start), run.start()) + 1, start)
            found = text.find("\n", run.end())
            line_end, runs = (len(text) if found < 0 else found), []
        runs.append(run)
    yield from _of_line(text, line, line_end, runs)


def _of_line(text: str, line: int, line_end: int, runs: "list[re.Match[str]]") -> Iterator[Mark]:
    if not runs:
        return
    first, last = runs[0], runs[-1]
    begin = min(line_end + 1, len(text))
    if first.start() - line <= _MAX_INDENT and not text[line : first.start()].strip():
        info = text[first.end() : min(line_end, first.end() + MAX_INFO_CHARS)]
        if _ends_line(text, first.end(), line_end):
            yield Mark(Kind.BARE, first.start(), first.end(), line, first[0])
            return
        if first.end() + len(info) == line_end and is_info(info):
            yield Mark(Kind.OPEN, first.start(), begin, line, first[0])
            return
        if _NAMED.match(info):
            yield Mark(Kind.ODD, first.start(), first.end(), line, first[0])
    if last is first and not text[line : first.start()].strip():
        return
    if _ends_line(text, last.end(), line_end):
        if text.find("#", line, last.start()) < 0:  # no comment that speaks of fences
            yield Mark(Kind.TAIL, last.start(), last.end(), line, last[0])
    elif line_end - last.end() <= MAX_INFO_CHARS and _NAME_ALONE.fullmatch(text, last.end(), line_end):
        yield Mark(Kind.LATE_OPEN, last.start(), begin, line, last[0])


def _ends_line(text: str, at: int, line_end: int) -> bool:
    """Whether nothing follows on the line but `</code>`."""
    rest = text[at:line_end].strip()
    return not rest or (rest[: len(_CLOSE)].lower() == _CLOSE)
