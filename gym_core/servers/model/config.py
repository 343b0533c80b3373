"""What every kind of model server can be told. Kinds add how their endpoint is named and what it is asked for."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gym_core.config.secrets import Secrets, redact_text
from gym_core.servers.base import ServerConfig
from gym_core.types.cost import TokenPrices
from gym_core.types.wire import JsonObject, Secret, Wire

MODEL_ALIAS = "policy"
"""A neutral name: harnesses choose prompts by parts of a model's name."""
_SCHEME = re.compile(r"(?:bearer|basic|token|api-?key|key)\s+", re.IGNORECASE)
"""What may stand before the key in a header."""


def _plain_http(url: str) -> str:
    # The value stays out of these messages: it may hold a password.
    try:
        parts = urlsplit(url)
        has_good_port = parts.port != 0
    except ValueError:
        raise ValueError("not an http(s) URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_good_port:
        raise ValueError("not an http(s) URL")
    if parts.username or parts.password:
        raise ValueError("a URL holds no user name or password: give the key as the API key")
    return url.rstrip("/")


EndpointUrl = Annotated[str, AfterValidator(_plain_http)]
"""Where `/chat/completions` is added; usually ends in /v1."""


class ExactPrefixMode(StrEnum):
    AUTO = "auto"
    """The first of the others that the endpoint takes."""
    TOKEN_IN = "token_in"
    """vLLM's token routes (`--enable-scale-out`)."""
    REQUIRED_PREFIX = "required_prefix"
    """`required_prefix_token_ids` in chat requests, as NeMo RL's vLLM server takes them."""


class SessionLimits(Wire):
    """Of one session: code in its sandbox is the one who asks."""

    calls_in_flight: int = Field(default=8, gt=0)
    calls_per_minute: int = Field(default=600, gt=0)
    calls: int = Field(default=5000, gt=0)
    request_bytes: int = Field(default=32 << 30, gt=0)
    """Over all requests. A conversation is sent again with every call, pictures included."""
    output_tokens: int = Field(default=4_000_000, gt=0)


class RetryConfig(Wire):
    """Of endpoint faults, within one call."""

    max_attempts: int = Field(default=8, gt=0)
    """Answers of "busy" (429) do not count."""
    first_pause_s: float = Field(default=0.5, ge=0)
    """Doubled after each attempt."""
    max_pause_s: float = Field(default=30.0, ge=0)
    """Also the most of a `Retry-After` that is waited."""
    patience_s: float = Field(default=600.0, ge=0)
    """No attempt starts later than this after the call came."""


class ModelServerConfig(ServerConfig):
    model_alias: str = MODEL_ALIAS
    """The name by which clients know the model."""
    context_tokens: int | None = Field(default=None, gt=0)
    """None asks the endpoint, and takes 262144 where it does not say."""
    max_output_tokens: int = Field(default=32768, gt=0)
    """The most that one call may generate."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    idle_timeout_s: float = Field(default=300.0, gt=0)
    """Longest silence of the endpoint: before its first byte and between two."""
    request_timeout_s: float = Field(default=1800.0, gt=0)
    """Of one attempt as a whole."""
    max_concurrent_requests: int = Field(default=512, gt=0)
    """Towards the endpoint; more wait."""
    max_pause_s: float = Field(default=1800.0, gt=0)
    """A pause of the policy (`POST /v1/policy/pause`) that nobody ends or renews ends by itself after this long."""
    max_body_bytes: int = Field(default=64 << 20, gt=0)
    retry: RetryConfig = RetryConfig()
    session_limits: SessionLimits = SessionLimits()
    session_idle_s: float = Field(default=7200.0, gt=0)
    """A session that nobody used for this long is closed."""
    pin_system_prompt: bool = True
    """Whether each call of a session's conversation gets the system prompt that its first call had: harnesses write the
    date into it, and a prompt that changes at midnight is no continuation of what was sampled."""
    allow_template_leak: bool = False
    """Play an endpoint whose chat template prints list-shaped content as program text. Scores are then of a garbled
    prompt."""
    sampling_overrides: JsonObject = {}
    """Sampling fields that hold whatever a client asks."""
    extra_body: JsonObject = {}
    """Further fields of every request to the endpoint."""
    prices: TokenPrices | None = None
    """What the endpoint charges; None leaves costs unknown."""

    @property
    def retries(self) -> RetryConfig:
        return self.retry

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.context_tokens is not None and self.max_output_tokens >= self.context_tokens:
            raise ValueError(
                f"max_output_tokens {self.max_output_tokens} is not < context_tokens {self.context_tokens}"
            )
        return self


@dataclass(frozen=True)
class EndpointSettings:
    """How one kind of server speaks to its endpoint."""

    base_urls: tuple[str, ...]
    """`EndpointUrl`s."""
    model: str
    headers: dict[str, str] = field(default_factory=dict)
    fixed: JsonObject = field(default_factory=dict)
    """Fields of every request that this kind of server adds; `extra_body` wins over them."""
    wanted: JsonObject = field(default_factory=dict)
    """Fields asked for in a session's calls, such as log-probabilities."""
    exact_prefix: ExactPrefixMode | None = None
    """How a session's call goes on from known token ids; None leaves it to the endpoint's chat template."""
    wants_strictly: bool = False
    """Whether an endpoint that refuses `wanted` is an error, rather than asked without."""
    streams: bool = True
    """Whether a session's calls are streamed from the endpoint, so that silence is noticed early."""

    @cached_property
    def secrets(self) -> Secrets:
        """All that an endpoint is told and could repeat: each header's value, and the key in it without its scheme."""
        values = {value.strip() for value in self.headers.values()}
        return frozenset((values | {_SCHEME.sub("", value, count=1) for value in values}) - {""})

    def masked(self, text: str) -> str:
        """Text of the endpoint without our secrets: for errors, logs, records and replies. Mask first, then cut."""
        return redact_text(text, self.secrets)


def bearer(key: Secret | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
