"""What a run's identity holds: what a score depends on, and not where and how tidily it is played."""

import pytest

from gym_core.cli.selection import Selection
from gym_core.launch.identity import environment_identity, identity_hash

LENDING = "++visual_coding_opencode.resources_servers.visual_coding_opencode.sandbox_config"


def hash_with(*overrides: str) -> str:
    checked = Selection("visual_puzzles_opencode", None, "scripted_model", (), (), overrides).check()
    (environment,) = checked.run.environments.values()
    return identity_hash(environment_identity(checked, environment))


@pytest.mark.parametrize("override", ["max_sandboxes=3", "sweep_every_s=60"])
def test_a_run_is_resumed_with_fewer_sandboxes_and_other_sweeps(override: str) -> None:
    assert hash_with(f"{LENDING}.{override}") == hash_with()


@pytest.mark.parametrize("override", ["resources.memory_mib=4096", "ttl_s=9000", "weakest_network=host"])
def test_other_sandboxes_are_another_run(override: str) -> None:
    assert hash_with(f"{LENDING}.{override}") != hash_with()
