"""One call of a session to the policy, as it was kept: what was sent, what came back, and what it cost."""

from enum import StrEnum
from typing import Literal

from gym_core.types.ids import SafeId
from gym_core.types.wire import JsonObject, Wire

MODEL_CALL_SCHEMA_VERSION: Literal[1] = 1


class CallOutcome(StrEnum):
    ANSWERED = "answered"
    FAILED = "failed"
    """The endpoint, or a limit, ended it; `failure_kind` says which."""
    ABANDONED = "abandoned"
    """The client went away first. A harness that asks again makes a new call."""
    LOST = "lost"
    """It was sent and nothing was kept of how it went: this process died, or the disk was full."""


class CaptureGap(StrEnum):
    """What a captured answer lacks. Only one that lacks nothing is complete, and only a complete one is trained."""

    NO_END = "no_end"
    """The stream broke off."""
    NO_DONE = "no_done"
    """It ended without `[DONE]`."""
    NO_FINISH_REASON = "no_finish_reason"
    NO_PROMPT_IDS = "no_prompt_ids"
    NO_USAGE = "no_usage"
    """The endpoint did not count its tokens, so nobody can say that none is missing."""
    IDS_NOT_LOGPROBS = "ids_not_logprobs"
    """As many sampled ids as log-probabilities are needed."""
    IDS_NOT_USAGE = "ids_not_usage"
    """As many sampled ids as the endpoint counted are needed."""
    BAD_LOGPROB = "bad_logprob"
    """One is not finite, above 0, or the mark of a token that was cut from the distribution (-9999)."""


class CalledTool(Wire):
    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it, white space and order included."""


class CallAnswer(Wire):
    content: str
    reasoning: str
    tool_calls: list[CalledTool]
    finish_reason: str
    input_tokens: int
    output_tokens: int


class CallTimings(Wire):
    """Seconds of monotonic time."""

    queued_s: float = 0.0
    """Waiting for a free slot towards the endpoint, and for the end of a pause, over all attempts."""
    first_byte_s: float | None = None
    """From sending the attempt that succeeded to its first byte."""
    total_s: float = 0.0
    """From the request's arrival to its answer, retries and pauses included."""


class ModelCall(Wire):
    """One call. Token fields hold what the endpoint gave; only with `gaps` == [] is that all of it."""

    schema_version: Literal[1] = MODEL_CALL_SCHEMA_VERSION
    call_id: str
    session_id: SafeId
    index: int
    """Order of arrival within its session, from 0."""
    sent_at: float
    """Unix time, seconds."""
    outcome: CallOutcome
    messages: list[JsonObject] = []
    """As sent to the endpoint; each image is `sha256:<hex>`, a reference into the assets folder."""
    tools: list[JsonObject] = []
    sampling: JsonObject = {}
    """Every other field that was sent."""
    images: list[str] = []
    """SHA-256 of the images in `messages`, in order, repeats included."""
    image_url_heads: dict[int, str] = {}
    """By place in `images`, what stood before the base64 text of one that was not sent as the type that its bytes are;
    such as "data:image/jpg;base64,"."""
    images_added: list[str] = []
    """Those of them that no earlier call of the session held."""
    answer: CallAnswer | None = None
    failure_kind: str | None = None
    """A `FailureKind` word; None for an answer."""
    failure_message: str | None = None
    endpoint_status: int | None = None
    """HTTP status of the last attempt; None when no status came."""
    attempts: int = 0
    endpoint: int | None = None
    """Position, from 0, in the model server's `base_url` of the endpoint that was asked last."""
    timings: CallTimings = CallTimings()
    notes: list[str] = []
    """Stable phrases, such as "template_leak" or "token_ids_incomplete"."""
    prompt_token_ids: list[int] | None = None
    gaps: list[CaptureGap] | None = None
    """What the answer's capture lacks: [] is complete; None when nothing of an answer came."""
    policy_version: int | None = None
    """Of the weights when the last attempt was sent; None when nobody set one."""
    policy_version_end: int | None = None
    """When the answer was whole."""
    token_ids: list[int] | None = None
    """Sampled ids, the end-of-turn token included: as many as `answer.output_tokens` when complete."""
    logprobs: list[float] | None = None
    """Natural log, float32 precision; one per entry of `token_ids` when complete."""


class ImageTokens(Wire):
    """How the model's prompts stand for a picture: a run of one token, repeated."""

    token_id: int
    side_px: int | None = None
    """Pixels of a placeholder's side, for models that lay a picture out in a grid; None for others."""
    min_tokens: int | None = None
    """Of the smallest picture that was seen to be scaled up; every picture has about as many, or more. None when none
    was, so that it is not known."""
    max_tokens: int | None = None
    """Of the largest picture that was seen to be scaled down; every picture has about as many, or fewer. None when
    none was. Equal to `min_tokens` for models that give each picture the same."""


class EndpointReport(Wire):
    """What a model endpoint was seen to do in one probe."""

    ok: bool
    """It answers, takes pictures, and its template does not garble them."""
    answers: bool = False
    """A completion came back."""
    message: str
    """What went wrong and what to do, or "" when all is well."""
    model: str
    served_models: list[str] = []
    context_tokens: int | None = None
    """The endpoint's own limit, where it says."""
    gives_logprobs: bool = False
    gives_token_ids: bool = False
    accepts_images: bool = False
    leaks_list_content: bool = False
    """Its chat template prints list-shaped content as program text: scores would be of a garbled prompt."""
    allows_leak: bool = False
    """Whether the model server was told to take that as it is (`allow_template_leak`)."""
    logprobs_mode: Literal["raw", "processed", "unknown"] = "unknown"
    """"raw": of the model's own distribution; "processed": after temperature, top_k and top_p."""
    image_tokens: ImageTokens | None = None
    """None when prompt ids are not given, or their placeholders could not be told."""
    accepts_token_prompts: bool = False
    """It renders, generates from token ids and reads them back: what `exact_prefix` needs."""
    seconds: float = 0.0
