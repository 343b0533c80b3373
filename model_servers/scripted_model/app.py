"""The scripted policy as a model server: the same proxy and capture as for any endpoint, with the endpoint beside it.

The endpoint is mounted on this server's own app and called over HTTP with the run's token, so a sandbox, which holds a
session's key, reaches it only through the proxy.
"""

from fastapi import FastAPI

from gym_core.servers.model.config import EndpointSettings, ModelServerConfig, bearer
from gym_core.servers.model.server import ModelServer
from model_servers.scripted_model.endpoint import MODEL_NAME, make_endpoint

ENDPOINT_PATH = "/scripted_endpoint"


class ScriptedModelConfig(ModelServerConfig):
    looks: bool = True
    """false: a policy that guesses without a look at any picture, for what a benchmark gives to guesses."""


class ScriptedModel(ModelServer[ScriptedModelConfig]):
    config_type = ScriptedModelConfig

    def endpoint_settings(self) -> EndpointSettings:
        return EndpointSettings(
            base_urls=(f"{self.context.slice.url}{ENDPOINT_PATH}/v1",),
            model=MODEL_NAME,
            headers=bearer(self.context.slice.run_token),
        )

    def add_routes(self, app: FastAPI) -> None:
        super().add_routes(app)
        app.mount(ENDPOINT_PATH, make_endpoint(looks=self.config.looks))
