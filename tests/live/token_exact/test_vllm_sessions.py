"""Real OpenCode sessions with the real vLLM, whose sampling is its own: the same proof."""

import asyncio

import pytest

from tests.live.engines import needs_tiny_vlm, needs_vllm
from tests.live.gyms import needs_toolkit
from tests.live.token_exact.checks import check_leg
from tests.live.token_exact.evidence import read_leg
from tests.live.token_exact.play import VLLM_LEGS, Leg, play
from tests.live.token_exact.recomputed import MAX_GAP, recompute, swapped_gap
from tests.live.token_exact.teacher import Teacher, build_seeing_model

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.vllm, needs_toolkit, needs_tiny_vlm, needs_vllm]


NUMBERS = {"vllm_exact": range(0, 3), "vllm_drifting": range(3, 6)}
WRONG_PICTURE_GAP = 1e-3


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Teacher:
    return Teacher(build_seeing_model(tmp_path_factory.mktemp("vllm") / "model"))


@pytest.mark.parametrize("leg", VLLM_LEGS, ids=lambda leg: leg.name)
def test_samples_are_what_vllm_saw_and_sampled(
    leg: Leg, teacher: Teacher, tmp_path_factory: pytest.TempPathFactory
) -> None:
    numbers, folder = NUMBERS[leg.name], tmp_path_factory.mktemp(leg.name)
    asyncio.run(play(leg, numbers, model=teacher.folder, folder=folder))
    played = read_leg(leg.name, folder)
    found = check_leg(played, teacher)
    recompute(played, teacher, found)
    n_swapped, smallest = swapped_gap(played, teacher)
    assert found.problems == []
    assert found.counts["sessions"] == len(numbers)
    assert found.counts["calls trained"] >= 3 * len(numbers)
    assert found.counts["calls asked again after a fault"] >= 1
    assert (found.counts["calls with the exact prefix"] > 0) == leg.exact_prefix
    assert 0 < found.largest_gap < MAX_GAP
    assert n_swapped > 0
    assert smallest > WRONG_PICTURE_GAP
