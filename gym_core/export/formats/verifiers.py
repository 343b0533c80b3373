"""verifiers: a rollout's `trajectory`, one step a call, with `TrajectoryStepTokens`.

Source: PrimeIntellect-ai/verifiers, verifiers/types.py, classes TrajectoryStep and TrajectoryStepTokens, as of 2026-08,
looked up 2026-11-30: prompt_ids, prompt_mask, completion_ids, completion_mask, completion_logprobs, overlong_prompt,
is_truncated, routed_experts (required), multi_modal_data and prompt_attribution (not required).

Left out: `multi_modal_data` (processed pixels; the pictures are in `extras`), `prompt_attribution`, and the messages
`prompt`, `completion` and `response` of a step: they are in the run's captures. Each step repeats its whole prompt, as
the format has it: K calls of T tokens cost O(K * T).
"""

from typing import TypedDict

from gym_core.export.turns import images_by_turn, trained_spans
from gym_core.types.sample import TrainingSample
from gym_core.types.wire import JsonObject

TRUNCATED = "length"
"""Finish reason of an answer that a token limit cut."""


class TrajectoryStepTokens(TypedDict):
    """P prompt tokens, C sampled ones."""

    prompt_ids: list[int]
    prompt_mask: list[int]
    """int[P], all 0: a prompt is not trained, the answers of earlier steps in it neither."""
    completion_ids: list[int]
    completion_mask: list[int]
    """int[C], all 1."""
    completion_logprobs: list[float]
    """float[C]."""
    overlong_prompt: bool
    is_truncated: bool
    routed_experts: None


class TrajectoryStep(TypedDict):
    tokens: TrajectoryStepTokens
    reward: float | None
    advantage: float | None
    is_truncated: bool
    trajectory_id: str
    """Of the sample: the steps of one extend each other."""
    extras: JsonObject
    """`call_id`, and `images`: the pictures that this step's prompt adds, in order."""


def trajectory_steps(sample: TrainingSample) -> list[TrajectoryStep]:
    """Steps in order; the prompt of each begins with all tokens of the one before."""
    spans = trained_spans(sample)
    return [
        TrajectoryStep(
            tokens={
                "prompt_ids": sample.token_ids[: span.start],
                "prompt_mask": [0] * span.start,
                "completion_ids": sample.token_ids[span.start : span.end],
                "completion_mask": [1] * (span.end - span.start),
                "completion_logprobs": sample.logprobs[span.start : span.end],
                "overlong_prompt": False,
                "is_truncated": span.finish_reason == TRUNCATED,
                "routed_experts": None,
            },
            reward=sample.reward,
            advantage=sample.advantage,
            is_truncated=span.finish_reason == TRUNCATED,
            trajectory_id=sample.sample_id,
            extras={
                "call_id": span.call_id,
                "images": [image.model_dump(exclude_none=True) for image in images],
            },
        )
        for span, images in zip(spans, images_by_turn(sample, spans), strict=True)
    ]
