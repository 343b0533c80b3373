"""One line of a JSONL file as a JSON value, strictly: what it says is wrong is meant for the file's author."""

import json

MAX_DEPTH = 100
"""Of nested lists and objects: rows are written and read again with recursive code."""


def parse_row(line: bytes) -> object:
    """Raises ValueError saying what is no JSON about it, without repeating it."""
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte {line[error.start]:#04x} at position {error.start + 1}") from error
    try:
        value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
            raise ValueError(f"not JSON: the line is cut short after {len(text)} characters") from error
        raise ValueError(f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} at position {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    _check_depth(value)
    if "\\ud" in text or "\\uD" in text:
        _check_surrogates(value)
    return value


_TOO_DEEP = f"lists and objects nested more than {MAX_DEPTH} deep"


def _refuse(word: str) -> object:
    raise ValueError(f"not JSON: {word} is no number")


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for outer in level
            if isinstance(outer, (dict, list))
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _check_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair (\\ud800 to \\udfff) is no character") from error
