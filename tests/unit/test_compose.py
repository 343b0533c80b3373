"""compose.yaml says what its comments say: who has which key, who reaches whom, and that every server is watched."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from gym_core.cli.selection import Selection
from gym_core.errors import ConfigError
from gym_core.sandbox.providers.opensandbox import OpenSandboxConfig
from gym_core.types.wire import JsonObject

ROOT = Path(__file__).parents[2]
SERVERS = {"head", "policy", "judge", "agent", "resources"}
BLOCKS = {
    "policy_model": "policy",
    "judge_model": "judge",
    "opencode_agent": "agent",
    "visual_coding_opencode": "resources",
}
ENVIRONMENT = {"GYM_RUN_TOKEN": "token-7", "POLICY_BASE_URL": "http://198.18.0.1:8000/v1", "POLICY_MODEL": "m"}

OPENSANDBOX = {"OPENSANDBOX_DOMAIN": "sandboxes.example.com", "GYM_RELAY_ADDRESS": "10.0.0.9:8000"}


@pytest.fixture(scope="module")
def services() -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return found


@pytest.fixture(scope="module")
def config() -> JsonObject:
    found: JsonObject = yaml.safe_load((ROOT / "compose" / "gym.yaml").read_text())
    return found


def block_of(config: JsonObject, name: str) -> JsonObject:
    ((_, implementations),) = config[name].items()
    ((_, block),) = implementations.items()
    found: JsonObject = block
    return found


def test_every_server_is_of_one_image_watched_and_without_privileges(services: dict[str, JsonObject]) -> None:
    assert set(services) == SERVERS | {"prepare", "sandbox_image"}
    for name in SERVERS:
        service = services[name]
        assert service["image"] == "visual-agent-gym"
        assert "/readyz" in service["healthcheck"]["test"][-1]
        assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
        assert "privileged" not in service


def test_each_key_is_in_the_one_container_that_uses_it(services: dict[str, JsonObject]) -> None:
    holders = {
        key: {name for name in SERVERS if key in services[name]["environment"]}
        for key in ("POLICY_API_KEY", "OPENAI_API_KEY", "OPENSANDBOX_API_KEY", "GYM_API_KEY")
    }
    assert holders == {
        "POLICY_API_KEY": {"policy"},
        "OPENAI_API_KEY": {"judge"},
        "OPENSANDBOX_API_KEY": {"resources"},
        "GYM_API_KEY": {"head"},
    }
    assert all("OPENSANDBOX_DOMAIN" in services[name]["environment"] for name in SERVERS)


def test_the_engine_s_socket_is_in_one_container_alone(services: dict[str, JsonObject]) -> None:
    holders = {name for name in services if "docker.sock" in str(services[name].get("volumes"))}
    assert holders == {"resources"}
    assert {name for name in SERVERS if str(services[name].get("user", "")).startswith("0")} == {"resources"}


def test_only_the_head_is_published_and_on_this_machine_alone(services: dict[str, JsonObject]) -> None:
    published = {name: services[name]["ports"] for name in services if "ports" in services[name]}
    assert list(published) == ["head"]
    assert all(port.startswith("127.0.0.1:") for port in published["head"])


def test_each_server_is_where_the_configuration_says(services: dict[str, JsonObject], config: JsonObject) -> None:
    for name, service in BLOCKS.items():
        url = urlsplit(block_of(config, name)["url"])
        networks = services[service]["networks"]
        address = networks["servers"].get("ipv4_address") if isinstance(networks, dict) else None
        assert url.hostname == (address or service)
        assert url.port == block_of(config, name)["port"] == 8000
        assert services[service]["command"][:2] == ["serve", name]
    assert services["head"]["command"][:2] == ["serve", "head"]


def test_sandboxes_reach_the_policy_by_a_literal_address(config: JsonObject) -> None:
    assert re.fullmatch(r"http://[\d.]+:8000", block_of(config, "policy_model")["url"])


def test_the_configuration_is_right_as_it_is_and_with_what_opensandbox_lays_over_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {**ENVIRONMENT, "VISUAL_CODING_OPENCODE_SANDBOX_IMAGE": "box", "OPENSANDBOX_DOMAIN": ""}.items():
        monkeypatch.setenv(name, value)
    gym, over = (str(ROOT / "compose" / name) for name in ("gym.yaml", "gym-opensandbox.yaml"))
    assert "containers" in Selection(None, None, None, (gym,), (), ()).check().sandboxes

    monkeypatch.setenv("GYM_RELAY_ADDRESS", OPENSANDBOX["GYM_RELAY_ADDRESS"])
    with pytest.raises(ConfigError, match="OPENSANDBOX_DOMAIN"):
        Selection(None, None, None, (gym, over), (), ()).check()
    monkeypatch.setenv("OPENSANDBOX_DOMAIN", OPENSANDBOX["OPENSANDBOX_DOMAIN"])
    monkeypatch.setenv("OPENSANDBOX_USE_SERVER_PROXY", "true")
    checked = Selection(None, None, None, (gym, over), (), ()).check()
    assert checked.run.servers["visual_coding_opencode"].block["sandbox_provider"] == "cluster"
    found = checked.sandboxes["cluster"]
    assert isinstance(found, OpenSandboxConfig)
    assert (found.protocol, found.use_server_proxy, found.relay_address) == ("https", True, "10.0.0.9:8000")


def test_with_opensandbox_every_server_reads_both_files_and_none_is_root_or_has_the_socket(
    services: dict[str, JsonObject],
) -> None:
    over = yaml.safe_load((ROOT / "compose" / "opensandbox.yaml").read_text())
    for name in SERVERS:
        service = over["services"][name]
        assert service["command"] == [*services[name]["command"], "--config", "/etc/gym/opensandbox.yaml"]
        assert set(OPENSANDBOX) <= set(service["environment"])
        assert "./compose/gym-opensandbox.yaml:/etc/gym/opensandbox.yaml:ro" in service["volumes"]
    resources = over["services"]["resources"]
    assert resources["user"] == "1000:1000"
    assert "/dev/null:/var/run/docker.sock:ro" in resources["volumes"]
    assert over["networks"] == {"sandboxes": {}}
    assert {name for name in SERVERS if "sandboxes" in over["services"][name].get("networks", [])} == {"resources"}
    assert {name for name in SERVERS if "ports" in over["services"][name]} == {"policy"}


@pytest.mark.parametrize("files", [["compose.yaml"], ["compose.yaml", "compose/opensandbox.yaml"]], ids="+".join)
def test_docker_compose_takes_the_files(files: list[str]) -> None:
    """Where the plugin is; the live suite runs the services with the one that it brings."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no `docker compose` here")
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **ENVIRONMENT, **OPENSANDBOX}
    argv = [docker, "compose", *(word for name in files for word in ("--file", str(ROOT / name))), "config", "--quiet"]
    checked = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
