"""The proof by training: a tiny vision model learns through the whole gym, and two runs that must not learn do not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gym_core.types.wire import JsonObject
from tests.live.engines import needs_tiny_vlm

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_tiny_vlm]

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 1500.0


def train(out: Path, *flags: str) -> tuple[int, list[JsonObject], str]:
    """Exit code, steps and what was said of the documented command."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.tiny_grpo", "--out", str(out), *flags],
        cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr[-4000:]
    assert (out / "steps.jsonl").exists(), said
    return done.returncode, [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()], said


def test_a_policy_learns_to_name_colours_and_the_trainer_agrees_with_the_capture(tmp_path: Path) -> None:
    code, steps, said = train(tmp_path / "run")
    assert code == 0, said
    assert all(step["report"]["max_gap"] < 1e-4 for step in steps)
    assert sum(step["masked"] for step in steps) <= len(steps), said
    assert (tmp_path / "run" / "curve.svg").read_text().startswith("<svg")


def test_a_policy_that_sees_black_pictures_stays_at_chance(tmp_path: Path) -> None:
    code, steps, said = train(tmp_path / "run", "--control", "blind", "--steps", "60")
    assert code == 0, said
    assert len(steps) == 60


def test_a_wrong_picture_in_the_trainer_shows_as_a_gap(tmp_path: Path) -> None:
    code, steps, said = train(tmp_path / "run", "--control", "wrong_picture", "--steps", "6")
    assert code == 0, said
    assert max(step["report"]["max_gap"] for step in steps) > 1e-2
