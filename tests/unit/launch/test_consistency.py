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
