"""What an endpoint's 4xx means: the context is full, a field of ours is unknown to it, or the request is bad. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_CONTEXT = re.compile(
    r"maximum context length|maximum model length|context length is only|context_length_exceeded|prompt is too long"
    r"|maximum input length|exceeds? (?:the )?(?:model'?s )?(?:maximum |available )?context|reduce the length of the"
    r"|input is too long",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"(?:context length|model length)(?: is)?(?: only| of)? (\d+)", re.IGNORECASE)
_PROMPT = re.compile(
    r"(\d+) in the messages|has (\d+) input tokens|passed (\d+) input tokens|prompt \(length (\d+)\)"
    r"|(?:messages|prompt) resulted in (\d+) tokens",
    re.IGNORECASE,
)
_OUTPUT_CAP = re.compile(r"at most (\d+) (?:completion|output) tokens", re.IGNORECASE)
_PICTURE_LIMIT = re.compile(
    r"at most \d+ image(?:s|\(s\))?(?!\w)|too many images|maximum number of images|limit[-_]mm[-_]per[-_]prompt",
    re.IGNORECASE,
)
PICTURE_LIMIT_ADVICE = (
    "the endpoint takes fewer pictures in one prompt than an episode has: raise its limit, "
    "with vLLM --limit-mm-per-prompt '{\"image\": 100}'"
)


@dataclass(frozen=True)
class ContextFull:
    limit_tokens: int | None
    prompt_tokens: int | None
    """None when the endpoint did not count it exactly."""

    @property
    def left_tokens(self) -> int | None:
        if self.limit_tokens is None or self.prompt_tokens is None:
            return None
        return self.limit_tokens - self.prompt_tokens


def read_context_refusal(text: str) -> ContextFull | None:
    """None when the text does not speak of the context's length."""
    if not _CONTEXT.search(text):
        return None
    limit, prompt = _LIMIT.search(text), _PROMPT.search(text)
    return ContextFull(int(limit[1]) if limit else None, int(next(filter(None, prompt.groups()))) if prompt else None)


def read_output_cap(text: str) -> int | None:
    """The endpoint's own limit of one answer, when that is what it complains of."""
    found = _OUTPUT_CAP.search(text)
    return int(found[1]) if found else None


def speaks_of_picture_limit(text: str) -> bool:
    """Whether the endpoint takes fewer pictures a prompt than it was sent: a setting of it, vLLM's among others."""
    return _PICTURE_LIMIT.search(text) is not None


def named_fields(text: str, candidates: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in candidates if re.search(rf"\b{re.escape(name)}\b", text))


def wants_completion_tokens(text: str) -> bool:
    """OpenAI's newer models take `max_completion_tokens` only, and say so."""
    return "max_completion_tokens" in text and "unsupported" in text.lower()
