"""A vLLM server, or any endpoint of its chat-completions dialect: a policy with token capture, or a judge."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gym_core.servers.model.config import EndpointSettings, EndpointUrl, ExactPrefixMode, ModelServerConfig, bearer
from gym_core.servers.model.server import ModelServer
from gym_core.types.wire import JsonObject, Secret

TOKEN_FIELDS: JsonObject = {"logprobs": True, "return_token_ids": True, "include_reasoning": True}
"""Without the last one vLLM strips ids and log-probabilities from every answer."""


class VllmModelConfig(ModelServerConfig):
    base_url: EndpointUrl | Annotated[list[EndpointUrl], Field(min_length=1)]
    """With several, a session stays with one until that fails."""
    api_key: Secret | None = None
    """None for an endpoint that asks for none."""
    model: str = Field(min_length=1)
    """As the endpoint calls it."""
    return_token_id_information: Literal["auto"] | bool = "auto"
    """Whether sessions ask for token ids and log-probabilities; "auto" goes without where the endpoint refuses."""
    exact_prefix: bool = False
    """Whether a call that goes on from an earlier one of its session begins with that one's very tokens."""
    exact_prefix_mode: ExactPrefixMode = ExactPrefixMode.AUTO
    chat_template_kwargs: JsonObject = {}
    stream_upstream: bool = True
    """Streamed, silence of the endpoint is noticed early. Unstreamed, a tool call that vLLM cannot parse comes back as
    text, where its stream drops it."""

    @property
    def base_urls(self) -> tuple[str, ...]:
        return (self.base_url,) if isinstance(self.base_url, str) else tuple(self.base_url)

    @model_validator(mode="after")
    def _knows_ids(self) -> Self:
        if self.exact_prefix and self.return_token_id_information is False:
            raise ValueError("exact_prefix needs return_token_id_information, which is false")
        return self


class VllmModel(ModelServer[VllmModelConfig]):
    config_type = VllmModelConfig

    def endpoint_settings(self) -> EndpointSettings:
        config = self.config
        kwargs: JsonObject = (
            {"chat_template_kwargs": config.chat_template_kwargs} if config.chat_template_kwargs else {}
        )
        return EndpointSettings(
            base_urls=config.base_urls,
            model=config.model,
            headers=bearer(config.api_key),
            fixed=kwargs,
            wanted=TOKEN_FIELDS if config.return_token_id_information else {},
            exact_prefix=config.exact_prefix_mode if config.exact_prefix else None,
            wants_strictly=config.return_token_id_information is True or config.exact_prefix,
            streams=config.stream_upstream,
        )
