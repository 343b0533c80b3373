"""A trainer's log-probabilities beside the captured ones, and the control that must fail: two pictures changed over."""

import random

from gym_core.types.sample import TrainingSample
from tests.live.token_exact.evidence import Leg
from tests.live.token_exact.findings import Findings
from tests.live.token_exact.teacher import Teacher, gap, pictures_of

MAX_GAP = 1e-4


def recompute(leg: Leg, teacher: Teacher, found: Findings, *, at_most: int | None = None, seed: int = 0) -> None:
    """Compare a trainer's log-probabilities with the captured ones: of all samples, or of so many drawn by the seed."""
    samples = [sample for session in leg.sessions for sample in session.samples]
    chosen = samples if at_most is None else random.Random(seed).sample(samples, min(at_most, len(samples)))
    for sample in chosen:
        by_policy = {token for span in sample.calls for token in sample.token_ids[span.start : span.end]}
        if teacher.image_pad in by_policy:
            found.counts["samples not recomputed: the policy sampled a placeholder"] += 1
            continue
        value = gap(sample, teacher.logprobs(sample, pictures_of(sample, leg.assets)))
        found.gaps.append(value)
        found.counts["tokens recomputed"] += sum(sample.loss_mask)
        found.expect(value < MAX_GAP, f"{sample.sample_id}: |train - captured| = {value:.2e}")


def swapped_gap(leg: Leg, teacher: Teacher) -> tuple[int, float]:
    """How many samples have two pictures of one size and other content before an answer, and the smallest gap that
    shows when those two change places: what must not be small."""
    gaps = []
    for sample in (sample for session in leg.sessions for sample in session.samples):
        pair = _equal_sized(sample)
        if pair is None:
            continue
        pictures = pictures_of(sample, leg.assets)
        one, other = pair
        pictures[one], pictures[other] = pictures[other], pictures[one]
        gaps.append(gap(sample, teacher.logprobs(sample, pictures)))
    return len(gaps), min(gaps, default=0.0)


def _equal_sized(sample: TrainingSample) -> tuple[int, int] | None:
    last = max((at for at, one in enumerate(sample.loss_mask) if one), default=0)
    shown = [n for n, image in enumerate(sample.images) if image.offset is not None and image.offset < last]
    for one in shown:
        for other in shown:
            a, b = sample.images[one], sample.images[other]
            if one < other and (a.width, a.height) == (b.width, b.height) and a.sha256 != b.sha256:
                return one, other
    return None
