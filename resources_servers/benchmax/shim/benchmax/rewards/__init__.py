"""The three helpers that most reward hooks begin with; judges and rubrics are the installed package's."""

import math
import re
from collections.abc import Mapping, Sequence

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)


def extract_completion_text(completion: str | Sequence[Mapping[str, object]]) -> str:
    """Text of the last message when it is the assistant's, else ""; of a text, the text."""
    if isinstance(completion, str):
        return completion.strip()
    last = completion[-1] if completion else {}
    content = last.get("content") if last.get("role") == "assistant" else None
    return content.strip() if isinstance(content, str) else ""


def extract_answer_block(text: str) -> str:
    """What stands in the first `<answer>`, else the whole text."""
    found = _ANSWER.search(text)
    return (found[1] if found else text).strip()


def clip01(value: object) -> float:
    """The value within [0, 1]; 0 for what is no finite number."""
    try:
        number = float(value)  # type: ignore[arg-type]  # what it cannot read is the question
    except (TypeError, ValueError):
        return 0.0
    return min(1.0, max(0.0, number)) if math.isfinite(number) else 0.0
