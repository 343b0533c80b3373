"""How the model server says no: OpenAI's error shape, with a status and wording that harnesses act on as meant."""

import msgspec

from gym_core.errors import FailureKind

CONTEXT_CODE = "context_length_exceeded"
FIRST_TOO_LARGE = (
    "the endpoint found the first call of this session too large, and that holds the task's own prompt and pictures: "
    "raise the body limit of the gateway before it (HTTP 413), or the engine's context (vLLM --max-model-len)"
)
"""In no words that a harness takes for a context that filled up."""


class Refusal(Exception):
    """An answer that is an error. `kind` is set when it ends the episode by the endpoint's or the model's doing."""

    def __init__(
        self, status: int, code: str, message: str, *, kind: FailureKind | None = None, retry_after: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.kind = kind
        self.retry_after = retry_after

    def body(self) -> bytes:
        family = "server_error" if self.status >= 500 else "invalid_request_error"
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": family, "param": None, "code": self.code}}
        )


def bad_request(message: str) -> Refusal:
    return Refusal(400, "invalid_request", message)


def limit_reached(message: str) -> Refusal:
    return Refusal(400, "session_limit", message)


def model_unavailable(message: str) -> Refusal:
    """422: harnesses give up on it, where they would ask again for ever after 429 or 5xx."""
    return Refusal(422, FailureKind.MODEL_UNAVAILABLE, message, kind=FailureKind.MODEL_UNAVAILABLE)


def context_exceeded(limit_tokens: int | None, detail: str) -> Refusal:
    """The wording that OpenCode, among others, knows as the end of the context."""
    known = f"{limit_tokens} tokens" if limit_tokens else "reached"
    text = f"This model's maximum context length is {known}. Please reduce the length of the messages. ({detail[:300]})"
    return Refusal(400, CONTEXT_CODE, text, kind=FailureKind.CONTEXT_LIMIT)
