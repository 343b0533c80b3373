"""Long strings of a session's requests, told apart by comparing and not by reading: pictures, which come again with
every call.

A JSON reader looks at each byte of a string and a hash does so again, at 4 GB/s each; two searches for a byte and one
comparison take a tenth of that. So a string that came before is replaced by a short name before anything is parsed.

A string is cut out where there is no quote and no backslash within it, which is between two quotes or not in a string
at all. The name is good in a string only: elsewhere the body does not parse, and is then read as it came. Nobody
outside knows the names. What is in a string (bytes that no JSON string has, say) is checked when its message is first
read, as a whole.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Raw

_STRIDE = 16 << 10
"""Every so many bytes it is looked whether a long string is there: none of twice this length is missed."""
_PROBE_BYTES = 64
_MARK = b"\x7f"
"""Names begin with it: rare in texts, and found at once where it is."""
_N_DIGITS = 8
MAX_SESSION_BYTES = 64 << 20
MAX_BYTES = 256 << 20
"""Of all sessions' strings together; past it strings are read as they come."""


class Allowance:
    """Bytes that sessions may keep between them."""

    def __init__(self, n_bytes: int = MAX_BYTES) -> None:
        self._left = n_bytes

    def take(self, n_bytes: int) -> bool:
        has_room = n_bytes <= self._left
        self._left -= n_bytes if has_room else 0
        return has_room

    def give_back(self, n_bytes: int) -> None:
        self._left += n_bytes


@dataclass(frozen=True)
class Cut:
    """A body with names for its long strings."""

    body: bytes
    spans: list[tuple[int, int]]
    """Where each name's string began and ended in the body that was cut."""


class LongStrings:
    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._name = _MARK + secrets.token_hex(24).encode()
        self._place_of: dict[tuple[int, bytes], int] = {}
        """By length and a few bytes of the beginning, the middle and the end."""
        self._strings: list[bytes] = []
        self._taken = 0

    def cut(self, body: bytes) -> Cut | None:
        """None when there is nothing to cut."""
        pieces: list[bytes] = []
        spans: list[tuple[int, int]] = []
        done, at, place = 0, _STRIDE, -1
        while at < len(body):
            if body.find(b'"', at, at + _STRIDE) >= 0:
                at += _STRIDE
                continue
            start = body.rfind(b'"', done, at) + 1
            # A conversation only grows: after one string mostly comes the one that came after it before.
            end = self._end_of(place + 1, body, start)
            found = place + 1 if end >= 0 else None
            if found is None:
                end = body.find(b'"', at)
                if end < 0:
                    break
                found = self._place(body, start, end)
            if found is not None:
                place = found
                pieces += [body[done:start], self._name + b"%0*d" % (_N_DIGITS, place)]
                spans.append((start, end))
                done = end
            at = end + _STRIDE
        return Cut(b"".join([*pieces, body[done:]]), spans) if pieces else None

    def _end_of(self, place: int, body: bytes, start: int) -> int:
        """Where the string at `start` ends if it is that one; -1 if it is not."""
        if start == 0 or place >= len(self._strings) or not body.startswith(self._strings[place], start):
            return -1
        end = start + len(self._strings[place])
        return end if body.startswith(b'"', end) else -1

    def _place(self, body: bytes, start: int, end: int) -> int | None:
        """Of a string that is known from here on; None for one that cannot be cut out, or has no room."""
        if start == 0 or body.find(b"\\", start, end) >= 0:
            return None
        middle = (start + end) // 2
        places = (start, middle, end - _PROBE_BYTES)
        key = end - start, b"".join(body[place : place + _PROBE_BYTES] for place in places)
        place = self._place_of.get(key)
        if place is None:
            if self._taken + end - start > MAX_SESSION_BYTES or not self._allowance.take(end - start):
                return None
            self._taken += end - start
            place = self._place_of[key] = len(self._strings)
            self._strings.append(body[start:end])
        elif not body.startswith(self._strings[place], start):
            return None
        return place

    def count(self, text: bytes) -> int:
        """Names in it."""
        return text.count(self._name) if _MARK in text else 0

    def whole(self, text: bytes) -> bytes:
        """With the strings instead of their names."""
        if _MARK not in text:
            return text
        beginning, *rest = text.split(self._name)
        pieces = [beginning]
        for piece in rest:
            pieces += [self._strings[int(piece[:_N_DIGITS])], piece[_N_DIGITS:]]
        return b"".join(pieces)

    def places(self, body: bytes, cut: Cut, messages: Iterable[Raw]) -> list[Raw]:
        """Each message where it lies in the body that was cut, uncopied; in their order, and all names are in them."""
        found, at, n_name = [], 0, len(self._name) + _N_DIGITS
        for raw in messages:
            short = bytes(raw)
            n = self.count(short)
            if n:
                start = cut.spans[at][0] - short.find(self._name)
                end = cut.spans[at + n - 1][1] + len(short) - short.rfind(self._name) - n_name
                raw = Raw(memoryview(body)[start:end])
            at += n
            found.append(raw)
        return found

    def close(self) -> None:
        """Forget them."""
        self._allowance.give_back(self._taken)
        self._taken = 0
        self._place_of.clear()
        self._strings.clear()
