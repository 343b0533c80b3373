"""What `run_tool` gave, as parts for the model: texts, and pictures as bytes. Pure, by the contract's rule."""

import json
from collections.abc import Mapping

from gym_core.capture.images import parse_data_url

MAX_RESULT_CHARS = 1 << 20
"""Of the texts of one result: more than any context takes."""
_PART_TYPES = frozenset({"text", "image_url"})


def parts_of(result: object) -> list[str | bytes]:
    """A non-empty list of `text` and `image_url` parts as it is; else one text: a str itself, None "", JSON compact,
    anything else its str().

    Raises ValueError for a part that is none, a picture that is no `data:` URL (nothing is fetched), and too much text.
    """
    content = content_of(result)
    parts: list[str | bytes] = [text_of(result)] if content is None else [_part(part) for part in content]
    n_chars = sum(len(part) for part in parts if isinstance(part, str))
    if n_chars > MAX_RESULT_CHARS:
        raise ValueError(f"the result has {n_chars} characters: at most {MAX_RESULT_CHARS} are shown to a model")
    return parts


def content_of(result: object) -> list[Mapping[str, object]] | None:
    """The parts of a result that is made of them, else None."""
    if not isinstance(result, list | tuple):
        return None
    parts = [part for part in result if isinstance(part, Mapping) and part.get("type") in _PART_TYPES]
    return parts if 0 < len(parts) == len(result) else None


def text_of(result: object) -> str:
    """Raises ValueError for JSON that refers to itself, TypeError for JSON that holds what is none."""
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    if isinstance(result, Mapping | list | tuple | int | float | bool):
        return json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return str(result)


def _part(part: Mapping[str, object]) -> str | bytes:
    if part["type"] == "text":
        text = part.get("text")
        if not isinstance(text, str):
            raise ValueError(f"a text part holds a {type(text).__name__} and no text")
        return text
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else image
    if not isinstance(url, str):
        raise ValueError("an image_url part holds no url")
    return parse_data_url(url)
