"""Requests as vLLM 0.32 takes them, as far as this server understands them.

What vLLM has and this server lacks is refused by name; what vLLM does not know either is ignored, as there.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym_core.types.wire import JsonObject

MAX_TOP_LOGPROBS = 20


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_means_default(cls, body: object) -> object:
        return {key: value for key, value in body.items() if value is not None} if isinstance(body, dict) else body


class StreamOptions(_Request):
    include_usage: bool = False


class ChatRequest(_Request):
    messages: list[JsonObject] = Field(min_length=1)
    tools: list[JsonObject] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    """vLLM also forces calls with a grammar."""
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=100)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = 0
    seed: int | None = None
    n: Literal[1] | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool = False
    logit_bias: dict[int, float] | None = None
    structured_outputs: None = None
    response_format: None = None
    prompt_logprobs: None = None
    logprobs: bool | None = False
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    return_prompt_text: bool | None = None
    include_reasoning: bool = True
    add_generation_prompt: bool = True
    mm_payload: Literal["full", "none"] = "full"
    """Of /render: `none` leaves the pixels out."""
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    force_text: str | None = None
    """Not vLLM's: take these tokens instead of sampling, then the end of the turn; the model scores them."""
    force_token_ids: list[int] | None = Field(default=None, min_length=1)
    """Not vLLM's: the same with ids, and nothing after them."""

    @model_validator(mode="after")
    def _top_logprobs_need_logprobs(self) -> "ChatRequest":
        if self.top_logprobs and not self.logprobs:
            raise ValueError("when using `top_logprobs`, `logprobs` must be set to true.")
        return self

    @property
    def uses_tools(self) -> bool:
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class TokenSampling(BaseModel):
    """`sampling_params` of a generate request."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=100)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = 0
    seed: int | None = None
    logprobs: int | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    logit_bias: dict[int, float] | None = None
    ignore_eos: bool = False
    structured_outputs: None = None


class Placeholder(BaseModel):
    model_config = ConfigDict(frozen=True)

    offset: int = Field(ge=0)
    length: int = Field(gt=0)


class Features(BaseModel):
    """Pictures as /render returns them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    mm_hashes: dict[Literal["image"], list[str]]
    mm_placeholders: dict[Literal["image"], list[Placeholder]]
    kwargs_data: dict[Literal["image"], list[str | None]] | None = None


class ContentPart(BaseModel):
    """A picture beside token ids."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Literal["image_url"]
    url: str


class GenerateRequest(_Request):
    request_id: str | None = None
    token_ids: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    sampling_params: TokenSampling
    features: Features | None = None
    content_parts: list[ContentPart] | None = None
    return_token_ids: bool | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    force_token_ids: list[int] | None = Field(default=None, min_length=1)
    """Not vLLM's: as in a chat request."""

    @model_validator(mode="after")
    def _one_kind_of_pictures(self) -> "GenerateRequest":
        if self.features and self.content_parts:
            raise ValueError("content_parts and features are mutually exclusive")
        return self


class GeneratedLogprob(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    token_id: int = Field(ge=0)
    logprob: float
    top_logprobs: list["GeneratedLogprob"] = []


class GeneratedLogprobs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    content: list[GeneratedLogprob] | None = None


class GeneratedChoice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    index: int
    finish_reason: str | None = "stop"
    stop_reason: int | str | None = None
    token_ids: list[Annotated[int, Field(ge=0)]] | None = None
    logprobs: GeneratedLogprobs | None = None


class Generated(BaseModel):
    """What /inference/v1/generate answered."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    request_id: str
    choices: list[GeneratedChoice]


class DerenderRequest(_Request):
    generate_response: Generated
    chat_request: ChatRequest | None = None
    prompt_tokens: int | None = None
    stream: Literal[False] = False


class TokenizeRequest(_Request):
    messages: list[JsonObject] | None = None
    tools: list[JsonObject] | None = None
    prompt: str | None = None
    add_generation_prompt: bool = True
    return_token_strs: bool = False


class CollectiveRpc(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    method: Literal["reload_weights"]
