"""From a config's words to what a sandbox may reach."""

import pytest

from gym_core.errors import ConfigError
from gym_core.sandbox.contract import ModelOnly, NoNetwork
from gym_core.sandbox.egress import network_policy


def test_none_reaches_nothing_whatever_the_model_server() -> None:
    assert network_policy("none", "http://127.0.0.1:9000/v1") == NoNetwork()


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:9000/v1", "127.0.0.1", 9000),
        ("http://10.1.2.3", "10.1.2.3", 80),
        ("http://[::1]:9000", "::1", 9000),
    ],
)
def test_model_only_is_one_address_and_port(url: str, host: str, port: int) -> None:
    assert network_policy("model_only", url) == ModelOnly(host=host, port=port)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        (None, "sandbox_model_server"),
        ("http://model.example:9000/v1", "'model.example' is not a literal IP address"),
        ("http://localhost:9000", "not a literal IP"),
        ("https://127.0.0.1:9000", "not http"),
        ("http://0.0.0.0:9000", "to listen on"),
        ("http://127.0.0.1:notaport", "not a URL"),
        ("nonsense", "not http"),
    ],
)
def test_what_cannot_be_one_address_is_a_mistake_in_the_config(url: str | None, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        network_policy("model_only", url)
