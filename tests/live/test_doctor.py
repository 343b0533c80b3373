"""`gym doctor` on an engine with vLLM's wire and real weights, and a real sandbox."""

from pathlib import Path

import pytest

from gym_core.cli.doctor import Doctor
from gym_core.cli.selection import Selection
from gym_core.types.checkup import CheckState
from tests.live.engines import MODEL_NAME, build_model, needs_tiny_vlm, tiny_engine
from tests.live.gyms import needs_toolkit

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_tiny_vlm, needs_toolkit]


async def test_a_tiny_engine_is_fit_for_a_run_and_for_training_and_its_random_weights_are_told(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "model")
    async with tiny_engine(folder) as engine:
        overrides = (
            f"++policy_base_url={engine.base_url}", "++policy_api_key=EMPTY", f"++policy_model_name={MODEL_NAME}",
        )  # fmt: skip
        doctor = Doctor(Selection("visual_puzzles_opencode", None, "vllm_model", (), (), overrides))
        found = {finding.check: finding async for finding in doctor.findings()}
    states = {check: finding.state for check, finding in found.items()}
    assert CheckState.FAIL not in states.values(), found
    good = ("disk", "toolkit", "sandbox", "endpoint", "images", "template", "tokens", "judge")
    assert {check: states[check] for check in good} == dict.fromkeys(good, CheckState.OK), found
    assert states["sight"] is CheckState.WARN, found["sight"]
    assert "exact_port" in found["sandbox"].found
    assert "raw" in found["tokens"].found
