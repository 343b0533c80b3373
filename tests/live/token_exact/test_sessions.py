"""Sixteen real OpenCode sessions with a real engine, checked as `python -m tests.bench sessions` checks hundreds."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from gym_core.types.sample import TrainingSample
from tests.live.engines import needs_tiny_vlm
from tests.live.gyms import needs_toolkit
from tests.live.token_exact.checks import check_leg
from tests.live.token_exact.evidence import Leg, read_leg
from tests.live.token_exact.findings import Findings
from tests.live.token_exact.play import LEGS, play
from tests.live.token_exact.recomputed import MAX_GAP, recompute, swapped_gap
from tests.live.token_exact.teacher import Teacher, build_seeing_model

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_toolkit, needs_tiny_vlm]


NUMBERS = {
    "exact": range(0, 5),
    "drifting": range(5, 9),
    "retokenized": range(9, 12),
    "canonical": range(12, 16),
}
WRONG_PICTURE_GAP = 1e-3


@dataclass(frozen=True)
class Proof:
    leg: Leg
    teacher: Teacher


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Teacher:
    return Teacher(build_seeing_model(tmp_path_factory.mktemp("token_exact") / "model"))


@pytest.fixture(scope="module", params=LEGS, ids=lambda leg: leg.name)
def proof(request: pytest.FixtureRequest, teacher: Teacher, tmp_path_factory: pytest.TempPathFactory) -> Proof:
    leg = request.param
    folder = tmp_path_factory.mktemp(leg.name)
    asyncio.run(play(leg, NUMBERS[leg.name], model=teacher.folder, folder=folder))
    return Proof(read_leg(leg.name, folder), teacher)


def test_every_sampled_token_is_trained_once_in_what_the_engine_saw(proof: Proof) -> None:
    found = check_leg(proof.leg, proof.teacher)
    assert found.problems == []
    n_sessions = len(NUMBERS[proof.leg.name])
    assert found.counts["sessions"] == n_sessions
    assert found.counts["calls trained"] >= 3 * n_sessions
    assert found.counts["calls asked again after a fault"] >= 2
    assert found.counts["calls failed"] == 0
    assert found.counts["samples with pictures of one size and other content"] >= n_sessions // 2
    match proof.leg.name:
        case "exact":
            assert found.counts["calls with the exact prefix"] >= n_sessions
            assert found.counts["samples of several calls"] >= n_sessions // 2
        case "drifting":
            assert found.counts["drift reasoning_dropped"] > 0
            assert found.counts["calls incomplete"] > 0
        case "retokenized":
            assert found.counts["drift retokenized, as a tokenizer tells"] > 0
        case _:
            assert found.counts["drift rerendered"] > 0


def test_a_trainer_finds_the_captured_log_probabilities(proof: Proof) -> None:
    found = Findings()
    recompute(proof.leg, proof.teacher, found)
    assert found.problems == []
    assert len(found.gaps) >= len(NUMBERS[proof.leg.name])
    assert found.largest_gap < MAX_GAP


def test_pictures_that_change_places_do_not_go_unnoticed(proof: Proof) -> None:
    """Equal in size, so that nothing but the pixels tells them apart."""
    n_samples, smallest = swapped_gap(proof.leg, proof.teacher)
    assert n_samples >= 1
    assert smallest > WRONG_PICTURE_GAP


@pytest.mark.parametrize("what", ["token", "logprob", "missing", "doubled", "pictures", "span"])
def test_the_checks_notice(proof: Proof, what: str) -> None:
    session = next(one for one in proof.leg.sessions if len(one.samples[-1].images) > 1)
    *others, last = session.samples
    spoiled = replace(session, samples=_spoiled(what, others, last))
    sessions = [spoiled if one is session else one for one in proof.leg.sessions]
    assert check_leg(replace(proof.leg, sessions=sessions), proof.teacher).problems != []


def _spoiled(what: str, others: Sequence[TrainingSample], last: TrainingSample) -> list[TrainingSample]:
    at = last.loss_mask.index(1)
    match what:
        case "token":
            change: dict[str, object] = {"token_ids": [*last.token_ids[:at], 5, *last.token_ids[at + 1 :]]}
        case "logprob":
            change = {"logprobs": [*last.logprobs[:at], last.logprobs[at] + 1e-4, *last.logprobs[at + 1 :]]}
        case "missing":
            return list(others)
        case "doubled":
            return [*others, last, last]
        case "pictures":
            change = {"images": last.images[::-1]}
        case _:
            first, *more = last.images
            change = {"images": [first.model_copy(update={"offset": (first.offset or 0) + 1}), *more]}
    return [*others, last.model_copy(update=change)]
