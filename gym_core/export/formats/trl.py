"""TRL: the dictionary that a `rollout_func` of GRPOTrainer returns, one entry a prompt.

Source: huggingface/trl, trl/trainer/grpo_trainer.py, `_generate` with `rollout_func`, as of 2026-07, looked up
2026-11-30: required keys prompt_ids, completion_ids, logprobs; `env_mask` is taken as the tool mask; every other key
goes to the reward functions, one entry a completion.

Left out: pictures of tool results. With a `rollout_func` TRL trains with the pictures of its own data set alone
(`images = None` in that branch), so samples whose pictures came later are not exact there; `gym_images` lets a reward
function or a patched trainer have them.
"""

from collections.abc import Sequence
from typing import TypedDict

from gym_core.export.turns import prompt_length, trainable_mask, trainable_reward
from gym_core.types.sample import TrainingSample
from gym_core.types.wire import JsonObject


class TrlRollout(TypedDict):
    """One completion. P prompt tokens, C completion tokens; P + C = T of the sample."""

    prompt_ids: list[int]
    completion_ids: list[int]
    """From the first trained token on, tool tokens included."""
    logprobs: list[float]
    """float[C]: 0.0 on tokens of tools."""
    env_mask: list[int]
    """int[C]: 1 on tokens of the policy, 0 on those of tools, and on all of a masked sample."""
    gym_reward: float | None
    """For a reward function to return. None for a masked sample, which TRL would count as 0: leave such ones out."""
    gym_mask_reason: str | None
    gym_sample_id: str
    gym_images: list[JsonObject]


class TrlRollouts(TypedDict):
    """What `rollout_func` returns: N completions, every list has N entries, as in `TrlRollout`."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    logprobs: list[list[float]]
    env_mask: list[list[int]]
    gym_reward: list[float | None]
    gym_mask_reason: list[str | None]
    gym_sample_id: list[str]
    gym_images: list[list[JsonObject]]


def trl_rollout(sample: TrainingSample) -> TrlRollout:
    """O(T)."""
    split = prompt_length(sample)
    return TrlRollout(
        prompt_ids=sample.token_ids[:split],
        completion_ids=sample.token_ids[split:],
        logprobs=sample.logprobs[split:],
        env_mask=trainable_mask(sample)[split:],
        gym_reward=trainable_reward(sample),
        gym_mask_reason=sample.mask_reason,
        gym_sample_id=sample.sample_id,
        gym_images=[image.model_dump(exclude_none=True) for image in sample.images],
    )


def trl_rollouts(samples: Sequence[TrainingSample]) -> TrlRollouts:
    """One sample a prompt, in the order of the prompts (`gym_core.export.turns.fullest` picks one of a rollout's)."""
    rollouts = [trl_rollout(sample) for sample in samples]
    return TrlRollouts(
        prompt_ids=[rollout["prompt_ids"] for rollout in rollouts],
        completion_ids=[rollout["completion_ids"] for rollout in rollouts],
        logprobs=[rollout["logprobs"] for rollout in rollouts],
        env_mask=[rollout["env_mask"] for rollout in rollouts],
        gym_reward=[rollout["gym_reward"] for rollout in rollouts],
        gym_mask_reason=[rollout["gym_mask_reason"] for rollout in rollouts],
        gym_sample_id=[rollout["gym_sample_id"] for rollout in rollouts],
        gym_images=[rollout["gym_images"] for rollout in rollouts],
    )
