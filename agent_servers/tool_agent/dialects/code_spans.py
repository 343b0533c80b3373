"""The blocks of code in a text, from its marks: of several readings of a block, the first one that compiles.

Time is linear in the text: a block ends behind what was looked at for it, or takes a bounded number of looks.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent_servers.tool_agent.dialects.code_marks import MAX_INFO_CHARS, PYTHON, Kind, Mark, find_marks, is_info
from agent_servers.tool_agent.dialects.code_syntax import Syntax, SyntaxReader
from agent_servers.tool_agent.dialects.contract import Form

_MAX_CLOSES = 8
"""So many marks are tried as the end of one block."""
_MAX_LOOKS = 32
"""So many marks are looked at for it."""
_MAX_ONE_LINE_CHARS = 2000
_TAGS = re.compile(r"</?code>", re.IGNORECASE)
_FENCE_FIRST = re.compile(r"\s{0,200}(?P<run>`{3,}|~{3,})")
_NAME_FIRST = re.compile(rf"[ \t]*{PYTHON}[ \t]+", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    start: int
    end: int
    code: tuple[int, int] | None
    """From and to; None: it has no end."""
    forms: tuple[Form, ...] = ()
    is_inline: bool = False
    """A `<code>` after other words of its line."""


@dataclass(frozen=True)
class Found:
    blocks: list[Block]
    """In order, none within another."""
    has_odd_fence: bool
    """One names Python and is no block."""


def find_blocks(text: str, start: int) -> Found:
    """Of the text from `start`."""
    marks = find_marks(text, start)
    blocks = list(_BlockReader(text, marks).blocks())
    if len(blocks) > 1:
        apart = [block for block in blocks if not _is_in_prose(block, text)]
        blocks = apart or [block for block in blocks if not _is_mention(block)] or blocks
    return Found(blocks, any(mark.kind is Kind.ODD for mark in marks))


def _is_in_prose(block: Block, text: str) -> bool:
    """A `<code>` within a line that says more; beside a block that stands apart it is spoken of, whatever it holds."""
    if block.code is None:
        return block.is_inline
    if text.find("\n", block.start, block.end) >= 0:
        return False
    return block.is_inline or _has_words(text[block.end : block.end + 200].partition("\n")[0])


def _is_mention(block: Block) -> bool:
    """One in prose, and without an end or with words in it: spoken of, where another one holds code."""
    return block.is_inline and (block.code is None or Form.SYNTAX_ERROR in block.forms)


def _has_words(piece: str) -> bool:
    return bool(_TAGS.sub("", piece).strip())


class _BlockReader:
    def __init__(self, text: str, marks: list[Mark]) -> None:
        self._text = text
        self._marks = marks
        self._syntax = SyntaxReader(text)
        self._starts = [mark.start for mark in marks]
        self._ends = [mark for mark in marks if mark.kind in (Kind.END_TAG, Kind.QUOTED_END_TAG)]
        self._end_starts = [mark.start for mark in self._ends]

    def blocks(self) -> Iterator[Block]:
        index = 0
        while index < len(self._marks):
            mark = self._marks[index]
            block = self._tagged(mark, index) if mark.kind is Kind.TAG else self._fenced(mark, index)
            index = self._next(index, block)
            if block is not None:
                yield block

    def _next(self, index: int, block: Block | None) -> int:
        """The index of the first mark behind the block."""
        return index + 1 if block is None else max(index + 1, bisect_left(self._starts, block.end))

    def _is_good(self, code: tuple[int, int], *, unseen: bool) -> bool:
        """`unseen` where nobody looks."""
        syntax = self._syntax.look(*code)
        return unseen if syntax is Syntax.UNSEEN else syntax is Syntax.GOOD

    def _forms(self, code: tuple[int, int]) -> tuple[Form, ...]:
        return (Form.SYNTAX_ERROR,) if self._syntax.look(*code) is Syntax.BROKEN else ()

    # -- <code> -------------------------------------------------------------

    def _tagged(self, tag: Mark, index: int) -> Block | None:
        """What the last fence in it holds, or all of it. None for a tag that another one follows before an end."""
        opener = self._fence_behind(tag)
        if opener is None and (whole := self._one_line(tag) or self._whole(tag)):
            return whole
        fences, at = self._fences_within(index, opener)
        stop = self._marks[at] if at < len(self._marks) else None
        close = stop if stop and stop.kind is Kind.END_TAG else None
        if fences:
            last = fences[-1]
            odd = [Form.UNCLOSED] if close is None and last.code and Form.UNCLOSED not in last.forms else []
            odd += [Form.SEVERAL_BLOCKS] if len(fences) > 1 else []
            return replace(last, start=tag.start, end=close.end if close else last.end, forms=(*last.forms, *odd))
        if close is not None:
            code = (tag.end, close.start)
            return Block(tag.start, close.end, self._trimmed(*code), self._forms(code), self._is_inline(tag))
        return None if stop else Block(tag.start, len(self._text), None, is_inline=self._is_inline(tag))

    def _is_inline(self, tag: Mark) -> bool:
        return _has_words(self._text[max(0, tag.start - 200) : tag.start].rpartition("\n")[2])

    def _fences_within(self, index: int, opener: Mark | None) -> tuple[list[Block], int]:
        """Fences before the tag's end or the next tag, and the index of that."""
        fences: list[Block] = []
        at = index + 1
        if opener is not None:
            first = self._fenced(opener, bisect_left(self._starts, opener.start + 1) - 1, in_tag=True)
            fences += [first] if first else []
            at = self._next(index, first)
        while at < len(self._marks) and self._marks[at].kind not in (Kind.END_TAG, Kind.TAG):
            found = self._fenced(self._marks[at], at, in_tag=True)
            fences += [found] if found else []
            at = self._next(at, found)
        return fences, at

    def _fence_behind(self, tag: Mark) -> Mark | None:
        """The fence right behind the tag, of Python or of no language."""
        found = _FENCE_FIRST.match(self._text, tag.end)
        line_end = self._text.find("\n", found.end(), found.end() + MAX_INFO_CHARS) if found else -1
        if found is None or line_end < 0:
            return None
        info = self._text[found.end() : line_end]
        if info.strip() and not is_info(info):
            return None
        return Mark(Kind.OPEN, found.start("run"), line_end + 1, found.start("run"), found["run"])

    def _one_line(self, tag: Mark) -> Block | None:
        """A fence that opens and closes on one line."""
        found = _FENCE_FIRST.match(self._text, tag.end)
        close = self._end_tag(tag.end)
        if found is None or close is None or close.start - found.end() > _MAX_ONE_LINE_CHARS:
            return None
        inside = self._text[found.end() : close.start].rstrip()
        named = _NAME_FIRST.match(self._text, found.end())
        code = (named.end() if named else found.end(), found.end() + len(inside) - len(found["run"]))
        if not inside.endswith(found["run"]) or "\n" in inside or code[0] > code[1]:
            return None
        return Block(tag.start, close.end, code, self._forms(code), self._is_inline(tag))

    def _whole(self, tag: Mark) -> Block | None:
        """Up to the first end that makes it compile."""
        first = bisect_left(self._end_starts, tag.end)
        for number, close in enumerate(self._ends[first : first + _MAX_CLOSES]):
            code = (tag.end, close.start)
            if self._is_good(code, unseen=number == 0):
                return Block(tag.start, close.end, self._trimmed(*code), (), self._is_inline(tag))
        return None

    def _end_tag(self, at: int) -> Mark | None:
        first = bisect_left(self._end_starts, at)
        ends = self._ends[first : first + _MAX_CLOSES]
        return next((mark for mark in ends if mark.kind is Kind.END_TAG), None)

    def _trimmed(self, begin: int, end: int) -> tuple[int, int]:
        """Without line breaks at both ends. Of a block that is taken only: it may take as long as the block is."""
        while begin < end and self._text[begin] in "\r\n":
            begin += 1
        while end > begin and self._text[end - 1] in "\r\n":
            end -= 1
        return begin, end

    # -- fences -------------------------------------------------------------

    def _fenced(self, opener: Mark, index: int, *, in_tag: bool = False) -> Block | None:
        """Up to the end that makes it compile: a fence on its own line, one at the end of a line, `</code>`.

        Else up to the first fence on its own line. None for what opens no fence, or is late and has no end.
        """
        if opener.kind not in (Kind.OPEN, Kind.LATE_OPEN):
            return None
        bare, tails, limit = self._ends_of(opener, index)
        for number, mark in enumerate(bare):
            code = (opener.end, max(opener.end, mark.line - 1))
            if self._is_good(code, unseen=number == 0 and mark.start < limit):
                return Block(opener.start, mark.end, code, (Form.NESTED_FENCES,) if number else ())
        for number, mark in enumerate(tails):
            if self._is_good(code := (opener.end, mark.start), unseen=not bare and not number):
                return Block(opener.start, mark.end, code)
        end_tag = self._end_tag(opener.end) if in_tag else None
        if end_tag and self._is_good(code := (opener.end, end_tag.start), unseen=not bare):
            return Block(opener.start, end_tag.start, self._trimmed(*code), (Form.UNCLOSED,))
        if bare and bare[0].start < limit:
            code = (opener.end, max(opener.end, bare[0].line - 1))
            return Block(opener.start, bare[0].end, code, self._forms(code))
        if opener.kind is Kind.LATE_OPEN:
            return None
        return Block(opener.start, min(limit, end_tag.start) if end_tag else limit, None)

    def _ends_of(self, opener: Mark, index: int) -> tuple[list[Mark], list[Mark], int]:
        """Fences on lines of their own, those at ends of lines, and where the next block opens.

        Ends past that are tried all the same: what seemed to open a block may be text in the code.
        """
        bare: list[Mark] = []
        tails: list[Mark] = []
        limit = len(self._text)
        most = 1 if self._syntax.is_spent else _MAX_CLOSES
        for mark in self._marks[index + 1 : index + 1 + _MAX_LOOKS]:
            if mark.start < opener.end:
                continue
            if mark.kind is Kind.OPEN:
                limit = min(limit, mark.start)
            elif mark.kind is Kind.BARE and mark.run.startswith(opener.run):
                bare.append(mark)
                if len(bare) == most:
                    break
            elif mark.kind is Kind.TAIL and mark.run.startswith(opener.run) and mark.start < limit:
                tails += [mark] if len(tails) < most else []
            if limit < mark.start and most == 1:
                break
        return bare, tails, limit
