"""The nearest known name, for messages about unknown ones."""

import difflib
from collections.abc import Iterable

NEAR = 0.6
"""Similarity from which a name is worth proposing: difflib's default; a swapped or a missing letter passes."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when none is like it."""
    matches = difflib.get_close_matches(name, sorted(set(known) - {name}), n=1, cutoff=NEAR)
    return matches[0] if matches else None


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a message: "; did you mean 'x'?", or the known names when they are few, or nothing."""
    names = sorted(set(known))
    match = nearest(name, names)
    if match is not None:
        return f"; did you mean {match!r}?"
    if 0 < len(names) <= 12:
        return f"; known: {', '.join(names)}"
    return ""
