"""The block `opensandbox`: what it takes from the environment, and what it refuses before anything is made."""

import logging
from pathlib import Path

import pytest

from gym_core.cli.selection import Selection
from gym_core.errors import ConfigError
from gym_core.launch.plan import cut_slice
from gym_core.sandbox.providers import SandboxConfig
from gym_core.sandbox.providers.opensandbox import OpenSandboxConfig, OpenSandboxProvider
from gym_core.types.wire import JsonObject

RESOURCES = "visual_coding_opencode.resources_servers.visual_coding_opencode"


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENSANDBOX_DOMAIN", "OPENSANDBOX_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def refusal(block: JsonObject) -> str:
    with pytest.raises(ConfigError) as caught:
        SandboxConfig.parse({"opensandbox": block}, "cluster")
    return str(caught.value)


def test_what_the_block_does_not_say_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSANDBOX_DOMAIN", "10.0.0.3:8080")
    monkeypatch.setenv("OPENSANDBOX_API_KEY", "key-of-the-cluster")
    found = OpenSandboxConfig.model_validate({})
    assert found.api_key is not None
    assert (found.domain, found.api_key.get_secret_value()) == ("10.0.0.3:8080", "key-of-the-cluster")
    said = OpenSandboxConfig.model_validate({"domain": "other:1", "api_key": None})
    assert (said.domain, said.api_key) == ("other:1", None)


def test_a_server_s_slice_holds_what_the_environment_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers see no variables of the command's."""
    monkeypatch.setenv("OPENSANDBOX_DOMAIN", "10.0.0.3:8080")
    monkeypatch.setenv("OPENSANDBOX_API_KEY", "key-of-the-cluster")
    overrides = (
        "++cluster={opensandbox: {image: box}, default_metadata: {team: eyes}}",
        f"++{RESOURCES}.sandbox_provider=cluster",
        f"++{RESOURCES}.sandbox_config.weakest_network=host",
        "++use_absolute_ip=true",
    )
    checked = Selection("visual_puzzles_opencode", None, "scripted_model", (), (), overrides).check()
    name = RESOURCES.partition(".")[0]
    names = dict.fromkeys(checked.run.servers, "http://127.0.0.1:1")
    given = cut_slice(checked, name, names, names, state_dir=Path("state")).sandboxes["cluster"]
    assert given["default_metadata"] == {"team": "eyes"}
    monkeypatch.delenv("OPENSANDBOX_DOMAIN")
    monkeypatch.delenv("OPENSANDBOX_API_KEY")
    settings = SandboxConfig.parse(given).settings
    assert isinstance(settings, OpenSandboxConfig)
    assert settings.api_key is not None
    assert (settings.domain, settings.api_key.get_secret_value()) == ("10.0.0.3:8080", "key-of-the-cluster")


def test_no_server_named_says_the_variable_and_an_example() -> None:
    said = refusal({})
    assert "cluster.opensandbox.domain" in said
    assert "OPENSANDBOX_DOMAIN" in said
    assert "localhost:8080" in said


@pytest.mark.parametrize(
    "relay",
    ["nonsense", "10.0.0.9", "10.0.0.9:", "10.0.0.9:0", "10.0.0.9:70000", "relay.example:80", "10.0.0.9:8a", ""],
)
def test_a_relay_that_is_no_address_and_port_is_a_mistake_in_the_block(relay: str) -> None:
    said = refusal({"domain": "localhost:8080", "relay_address": relay})
    assert "cluster.opensandbox.relay_address" in said
    assert "is not ip:port" in said


@pytest.mark.parametrize("relay", ["127.0.0.1:80", "[::1]:80", "0.0.0.0:80"])
def test_a_relay_on_loopback_is_refused(relay: str) -> None:
    assert "leads a sandbox to itself" in refusal({"domain": "localhost:8080", "relay_address": relay})


@pytest.mark.parametrize("relay", ["10.0.0.9:8000", "[fd00::9]:8000", None])
def test_a_relay_is_an_address_and_a_port(relay: str | None) -> None:
    found = OpenSandboxConfig.model_validate({"domain": "localhost:8080", "relay_address": relay})
    assert found.relay_address == relay


@pytest.mark.parametrize(
    ("block", "is_told"),
    [
        ({"domain": "8.8.8.8:80", "api_key": "key"}, True),
        ({"domain": "sandboxes.example.com", "api_key": "key"}, True),
        ({"domain": "[2001:4860:4860::8888]:80", "api_key": "key"}, True),
        ({"domain": "8.8.8.8:80"}, False),
        ({"domain": "8.8.8.8:80", "api_key": "key", "protocol": "https"}, False),
        ({"domain": "localhost:8080", "api_key": "key"}, False),
        ({"domain": "127.0.0.1", "api_key": "key"}, False),
        ({"domain": "10.0.0.3:8080", "api_key": "key"}, False),
        ({"domain": "server.sandboxes.svc:8080", "api_key": "key"}, False),
    ],
)
def test_a_key_that_goes_unencrypted_across_networks_is_told(
    block: JsonObject, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        OpenSandboxProvider(OpenSandboxConfig.model_validate(block))
    assert ("unencrypted" in caplog.text) == is_told
