"""What reaches the terminal: lines, with everything a stranger could hide in them taken out."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def printable(text: str, *, max_characters: int = 500) -> str:
    """One line without control characters, for text from models, datasets, servers and logs.

    What moves the cursor, turns the direction of text or shows nothing is dropped; any white space is one blank.
    """
    shown = (" " if char.isspace() else char for char in text[:max_characters] if char.isspace() or char.isprintable())
    return "".join(shown) + ("..." if len(text) > max_characters else "")


def say(line: str) -> None:
    """A result, to stdout."""
    print(line, flush=True)


def tell(line: str) -> None:
    """Progress, a warning or a problem, to stderr."""
    print(line, file=sys.stderr, flush=True)


def about(name: str, said: str) -> str:
    """What was said, after the name of what it is about, unless it begins with that by itself."""
    return said if said.startswith((f"{name}: ", f"{name} sandboxes: ")) else f"{name}: {said}"


@contextmanager
def warnings_told() -> Iterator[None]:
    """What the libraries warn of meanwhile, with its reason, as lines among ours."""
    handler = _Teller(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        reason = getattr(record, "reason", "")
        tell(printable(f"{record.getMessage()}: {reason}" if reason else record.getMessage()))


def table(rows: Sequence[tuple[str, ...]], *, indent: str = "  ") -> list[str]:
    """Rows of cells as aligned lines; the last column is not padded."""
    if not rows:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [(indent + line).rstrip() for line in lines]


def counted(count: int, noun: str) -> str:
    """ "1 retry", "2 retries", "3 tasks"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"


def money(amount: float, currency: str) -> str:
    """ "12.30 USD"; less than one with the digits that it needs, "0.0123 USD"."""
    return f"{amount:,.2f} {currency}" if amount >= 1 or amount == 0 else f"{amount:.3g} {currency}"


def duration(seconds: float) -> str:
    """Seconds for people: "12 s", "3 min 20 s", "2 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
