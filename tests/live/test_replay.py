"""Recorded calls played again through the real OpenCode in real sandboxes, as the command plays them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.model import Says
from tests.live.gyms import ANSWER, OPENCODE, bash, live_gym, needs_toolkit, script

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_toolkit]

ROOT = Path(__file__).resolve().parents[2]
STEADY = Says("Count.", (bash("python3 -c 'print(6 * 7)'"),))
RESTLESS = Says("The time.", (bash("date +%s%N"),))
"""Says something else each time it is asked."""


def replay(folder: Path, run: Path, *words: str) -> tuple[int, str, dict[str, int]]:
    """Exit code, what was said, and how many rollouts came to what."""
    environment = os.environ | {"GYM_STATE_DIR": str(folder / "state-of-replay")}
    done = subprocess.run(
        [sys.executable, "-m", "gym_core.cli.main", "eval", "replay", str(run), "--name", "again",
         "--config", "resources_servers/visual_coding_opencode/configs/visual_coding_opencode.yaml",
         "--config", "agent_servers/single_call/configs/single_call.yaml",
         "--config", str(folder / "environments.yaml"), "++visual_coding_opencode_judge_api_key=unused",
         "++visual_coding_opencode.resources_servers.visual_coding_opencode.judge=matcher", *words],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    report = run.with_name(f"{run.stem}_replayed-again_report.json")
    assert report.exists(), done.stdout + done.stderr
    return done.returncode, done.stdout, json.loads(report.read_text())["counts"]


async def test_real_opencode_asks_the_same_again_and_a_command_that_says_something_else_diverges(
    tmp_path: Path,
) -> None:
    async with live_gym(tmp_path, script(STEADY, ANSWER)) as gym:
        await gym.evaluate(OPENCODE, tasks=2)
    code, said, counts = replay(tmp_path, gym.output)
    assert (code, counts) == (0, {"same": 2}), said

    restless = tmp_path / "restless"
    restless.mkdir()
    async with live_gym(restless, script(RESTLESS, ANSWER)) as gym:
        await gym.evaluate(OPENCODE)
    code, said, counts = replay(restless, gym.output)
    assert (code, counts) == (1, {"diverged": 1}), said
    assert "call 2 was never recorded: message 4 (tool) of recorded call 2 was" in said
