"""Teach an untrained policy the form of an answer, and nothing about pictures: the colours it imitates are random."""

import random
from collections.abc import Sequence

from examples.tiny_grpo.pictures import COLOURS
from examples.tiny_grpo.policy import ImageBytes, TinyPolicy
from gym_core.types.sample import TrainingSample

STEPS = 60
BATCH = 16
LEARNING_RATE = 2e-3


def warm_up(policy: TinyPolicy, samples: Sequence[TrainingSample], image: ImageBytes, rng: random.Random) -> float:
    """Imitates random answers to the prompts of `samples`. Returns the last loss, at best log(4) an answer."""
    policy.set_learning_rate(LEARNING_RATE)
    loss = 0.0
    for _ in range(STEPS):
        batch = [_answered(policy, rng.choice(samples), rng.choice(list(COLOURS))) for _ in range(BATCH)]
        loss = policy.imitate(batch, image)
    return loss


def _answered(policy: TinyPolicy, sample: TrainingSample, colour: str) -> TrainingSample:
    """The sample's prompt with another answer."""
    prompt = sample.token_ids[: sample.loss_mask.index(1)]
    answer = policy.tokenizer.encode(f"\\boxed{{{colour}}}", add_special_tokens=False)
    answer.append(policy.tokenizer.eos_token_id)
    return sample.model_copy(
        update={
            "token_ids": prompt + answer,
            "loss_mask": [0] * len(prompt) + [1] * len(answer),
            "logprobs": [0.0] * (len(prompt) + len(answer)),
        }
    )
