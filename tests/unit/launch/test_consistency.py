from pathlib import Path

import pytest

from gym_core.cli.selection import Selection
from gym_core.errors import ConfigError

IMAGE_VARIABLE = "VISUAL_CODING_OPENCODE_SANDBOX_IMAGE"
RESOURCES = "visual_coding_opencode.resources_servers.visual_coding_opencode"
AGENT = "opencode_agent.agent_servers.opencode_agent"


@pytest.fixture(autouse=True)
def _nothing_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(IMAGE_VARIABLE, raising=False)


def problems(*overrides: str) -> list[str]:
    """Of the puzzles with these overrides; [] when the configuration is right."""
    try:
        Selection("visual_puzzles_opencode", None, "scripted_model", (), (), overrides).check()
    except ConfigError as error:
        return error.problems
    return []


def test_what_the_benchmark_says_is_consistent() -> None:
    assert problems() == []


def test_an_image_for_local_sandboxes_is_refused_with_both_settings_and_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, "registry/box:1")
    (problem,) = problems()
    assert problem.startswith(f"config: {RESOURCES}.sandbox_config.image: is 'registry/box:1'")
    assert f"{RESOURCES}.sandbox_provider is 'sandbox', a 'local' one" in problem
    assert "unset the image" in problem
    assert problem.endswith(f"(environment variable {IMAGE_VARIABLE})")


def test_an_image_is_fine_where_nothing_is_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, "registry/box:1")
    assert problems(f"++{RESOURCES}.sandbox_provider=null") == []


def test_a_folder_for_local_sandboxes_that_is_not_there_or_holds_keys_is_told_before_anything_starts(
    tmp_path: Path,
) -> None:
    def sharing(source: object) -> list[str]:
        return problems(f'++{RESOURCES}.sandbox_config.mounts=[{{source: "{source}", target: /data}}]')

    (tmp_path / "fonts").mkdir()
    assert sharing(tmp_path / "fonts") == []
    (problem,) = sharing(tmp_path / "nowhere")
    assert problem.startswith(f"config: {RESOURCES}.sandbox_config.mounts.0.source: '{tmp_path}/nowhere' is no folder")
    (problem,) = sharing("/var/run/docker.sock")
    assert problem.startswith(f"config: {RESOURCES}.sandbox_config.mounts.0.source: ")
    assert "which no sandbox may see" in problem


@pytest.mark.parametrize("field", ["session_idle_s", "sandbox_config.ttl_s"])
def test_a_turn_must_end_before_what_it_needs_does(field: str) -> None:
    timeout = f"++{AGENT}.timeout_s=1000"
    (problem,) = problems(timeout, f"++{RESOURCES}.{field}=1360")
    assert problem.startswith(f"config: {RESOURCES}.{field}: 1360 is not > 1360, which is {AGENT}.timeout_s (1000)")
    assert problem.endswith("(command line)")
    assert problems(timeout, f"++{RESOURCES}.{field}=1361") == []


def test_contradictions_and_wrong_blocks_are_told_together() -> None:
    found = "\n".join(problems(f"++{AGENT}.timeout_s=7100", "++head_server.port=-1"))
    for path in (f"{RESOURCES}.session_idle_s", f"{RESOURCES}.sandbox_config.ttl_s", "head_server.port"):
        assert f"config: {path}: " in found


def test_an_environment_with_a_wrong_block_is_not_compared() -> None:
    (problem,) = problems(f"++{AGENT}.timeout_s=-1")
    assert problem.startswith(f"config: {AGENT}.timeout_s: -1 is not > 0")


CLUSTER = "++cluster={opensandbox: {domain: 'localhost:8080', image: box}}"
ON_CLUSTER = (CLUSTER, f"++{RESOURCES}.sandbox_provider=cluster")
RELAYED = (*ON_CLUSTER, "++cluster.opensandbox.relay_address='10.0.0.9:8000'")
HOST = f"++{RESOURCES}.sandbox_config.weakest_network=host"


def test_opensandbox_must_be_allowed_the_network_that_it_has() -> None:
    (problem,) = problems(*RELAYED)
    assert problem.startswith(f"config: {RESOURCES}.sandbox_config.weakest_network: is 'exact_port', but 'cluster'")
    assert problems(*RELAYED, HOST) == []


@pytest.mark.parametrize("where", ["", "host=localhost", "host=0.0.0.0", "url='http://127.0.0.1:8000'"])
def test_a_policy_server_on_loopback_is_no_good_to_opensandbox_without_a_relay(where: str) -> None:
    said = (f"++policy_model.model_servers.scripted_model.{where}",) if where else ()
    (problem,) = problems(*ON_CLUSTER, HOST, *said)
    assert problem.startswith("config: cluster.opensandbox.relay_address: is not set, and 'policy_model' listens on ")
    assert "++use_absolute_ip=true" in problem
    assert problems(*RELAYED, HOST, *said) == []


@pytest.mark.parametrize(
    "other", ["++use_absolute_ip=true", "++policy_model.model_servers.scripted_model.host=10.0.0.4"]
)
def test_one_on_an_address_of_its_own_is(other: str) -> None:
    assert problems(*ON_CLUSTER, HOST, other) == []


def test_without_a_network_opensandbox_needs_neither() -> None:
    assert problems(*ON_CLUSTER, f"++{RESOURCES}.sandbox_network_access=none") == []
