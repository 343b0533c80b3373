"""Fields of an endpoint's answer that endpoints write in more than one form, and the words for a form that is none.

Pure. Strangers' bytes come in; the words that may be told to a harness are our own and quote none of them.
"""

import json
from collections.abc import Sequence

import msgspec

_REMEDY = "it must be as in OpenAI's chat completions: change the engine's settings, or put a gateway before it"
_MAX_TOLD = 500


class BrokenAnswer(Exception):
    """What came is not a whole answer; asking again may help. The message may quote it: mask it before it is shown."""


class WrongForm(BrokenAnswer):
    """It is whole, and not what a completion looks like: asking again hardly helps. The message quotes nothing."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what[:_MAX_TOLD]}; {_REMEDY}")


class TextPart(msgspec.Struct, gc=False):
    type: str = "text"
    text: str | None = None


def content_text(content: str | Sequence[TextPart] | None) -> str:
    """Of a message's content, which some endpoints give as a list. Raises WrongForm for a part that is no text."""
    if content is None or isinstance(content, str):
        return content or ""
    if any(part.type != "text" for part in content):
        raise WrongForm("the message's `content` is a list with a part that is no text")
    return "".join(part.text or "" for part in content)


def arguments_text(raw: msgspec.Raw) -> tuple[str, bool]:
    """A call's arguments or a piece of them, and whether they came as an object, as some endpoints give them: whole.

    Raises WrongForm for anything else.
    """
    found = bytes(raw)
    try:
        match found[:1]:
            case b'"':
                return msgspec.json.decode(found, type=str), False
            case b"{":
                return found.decode("utf-8"), True
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a raw value's bytes were passed over until now
        raise WrongForm("a tool call's `function.arguments` holds bytes that are no UTF-8") from error
    if found in (b"", b"null"):
        return "", False
    raise WrongForm("a tool call's `function.arguments` is neither text nor an object")


def fault_of(error: Exception, data: bytes) -> BrokenAnswer:
    """What kept `data` from being read as a part of an answer."""
    if isinstance(error, msgspec.ValidationError):
        return WrongForm(f"the answer has another form than a completion's: {error}")
    if isinstance(error, msgspec.DecodeError) and b"\\u" in data and _is_json(data):
        return WrongForm(
            "a text of the answer holds one half of a surrogate pair (such as \\ud800), which is no character"
        )
    return BrokenAnswer(f"not a completion: {error}"[:_MAX_TOLD])


def _is_json(data: bytes) -> bool:
    """As Python reads it, which takes halves of surrogate pairs."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
