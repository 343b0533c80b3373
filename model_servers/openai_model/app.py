"""OpenAI, or any endpoint that speaks its chat-completions dialect: a judge, or a policy without token capture."""

from pydantic import Field

from gym_core.servers.model.config import EndpointSettings, EndpointUrl, ModelServerConfig, RetryConfig, bearer
from gym_core.servers.model.server import ModelServer
from gym_core.types.wire import Secret


class OpenaiModelConfig(ModelServerConfig):
    openai_base_url: EndpointUrl = "https://api.openai.com/v1"
    openai_api_key: Secret | None = None
    """None for an endpoint that asks for none."""
    openai_model: str = Field(min_length=1)
    openai_default_headers: dict[str, Secret] = {}
    """Secrets, since gateways take their keys in headers of their own."""
    max_http_attempts: int = Field(default=3, gt=0)
    """Of one call, when the endpoint fails."""

    @property
    def retries(self) -> RetryConfig:
        return self.retry.model_copy(update={"max_attempts": self.max_http_attempts})


class OpenaiModel(ModelServer[OpenaiModelConfig]):
    config_type = OpenaiModelConfig

    def endpoint_settings(self) -> EndpointSettings:
        config = self.config
        headers = {name: value.get_secret_value() for name, value in config.openai_default_headers.items()}
        return EndpointSettings(
            base_urls=(config.openai_base_url,),
            model=config.openai_model,
            headers=headers | bearer(config.openai_api_key),
        )
