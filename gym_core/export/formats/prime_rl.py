"""prime-rl: the fields of the `TrainingSample` that its orchestrator sends to its trainer.

Source: PrimeIntellect-ai/prime-rl, src/prime_rl/transport/types.py, class TrainingSample, as of 2026-08, looked up
2026-11-30: token_ids, mask, logprobs, temperatures (all of one length), env_name, and optional ones, of which reward,
mm_token_type_ids, rl_weights and advantages are filled here.

Left out: `mm_kwargs` (the pixels: processors differ between versions, so the trainer's own one must make them from the
pictures), `routed_experts`, `ref_logprobs`, `ce_weights` and `ref_kl_weights`. `advantages` is the plain list per
token; a version that wants named advantages wraps it.
"""

from typing import TypedDict

from gym_core.export.turns import trainable_mask, trainable_reward, trained_only, trainer_temperatures
from gym_core.types.sample import TrainingSample


class PrimeRlSample(TypedDict):
    """T tokens; every list has one entry a token."""

    token_ids: list[int]
    mask: list[bool]
    """All false for a masked sample."""
    logprobs: list[float]
    """0.0 on tokens that were not sampled."""
    temperatures: list[float]
    env_name: str
    reward: float | None
    """None for a masked sample."""
    mm_token_type_ids: list[int] | None
    """0 text, 1 picture; None without pictures, or when a picture's placeholders are not known."""
    rl_weights: list[float] | None
    """None stands for 1 on every trained token."""
    advantages: list[float] | None
    """0.0 off the mask; None when no group was asked for."""


def prime_rl_sample(sample: TrainingSample) -> PrimeRlSample:
    """O(T)."""
    return PrimeRlSample(
        token_ids=sample.token_ids,
        mask=[bool(marked) for marked in trainable_mask(sample)],
        logprobs=sample.logprobs,
        temperatures=trainer_temperatures(sample),
        env_name=sample.environment,
        reward=trainable_reward(sample),
        mm_token_type_ids=_token_types(sample),
        rl_weights=None if sample.weight == 1.0 else trained_only(sample.weight, sample),
        advantages=None if sample.advantage is None else trained_only(sample.advantage, sample),
    )


def _token_types(sample: TrainingSample) -> list[int] | None:
    if not sample.images:
        return None
    types = [0] * len(sample.token_ids)
    for image in sample.images:
        if image.offset is None or image.length is None:
            return None
        types[image.offset : image.offset + image.length] = [1] * image.length
    return types
