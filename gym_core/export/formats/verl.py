"""verl: the fields of `AgentLoopOutput`, for an agent loop that plays through this gym.

Source: verl-project/verl, verl/experimental/agent_loop/agent_loop.py, class AgentLoopOutput, as of 2026, looked up
2026-11-30: prompt_ids, response_ids (tool tokens included), response_mask, response_logprobs, routed_experts,
multi_modal_data, reward_score, num_turns, metrics, extra_fields, mm_processor_kwargs.

Left out: `routed_experts` (no endpoint we capture gives them) and `mm_processor_kwargs`. verl wants
`multi_modal_data["images"]` as PIL images; here they are references, which `gym_core.export.images.open_images` turns
into those.
"""

from typing import TypedDict

from gym_core.export.turns import prompt_length, trainable_mask, trainable_reward
from gym_core.types.rollout import EpisodeTiming
from gym_core.types.sample import TrainingSample
from gym_core.types.wire import JsonObject


class VerlMetrics(TypedDict):
    generate_sequences: float
    """Seconds in calls to the policy."""
    tool_calls: float
    """Seconds of the episode's answer outside of them."""
    compute_score: float
    num_preempted: int
    """-1: not known."""


class VerlMultiModalData(TypedDict, total=False):
    images: list[JsonObject]
    """`SampleImage` objects, in the order of their placeholders in prompt and response."""


class VerlAgentLoopOutput(TypedDict):
    """P prompt tokens, R response tokens; P + R = T of the sample."""

    prompt_ids: list[int]
    response_ids: list[int]
    """From the first trained token on."""
    response_mask: list[int]
    """int[R]: 1 on trained tokens; all 0 for a masked sample."""
    response_logprobs: list[float]
    """float[R]: 0.0 on tokens that were not sampled."""
    multi_modal_data: VerlMultiModalData
    reward_score: float | None
    """None for a masked sample: give such a one no advantage."""
    num_turns: int
    """As verl counts: the prompt, each answer, and each turn of the tools between them."""
    metrics: VerlMetrics
    extra_fields: JsonObject


def agent_loop_output(sample: TrainingSample, timing: EpisodeTiming | None = None) -> VerlAgentLoopOutput:
    """O(T). Nothing is cut to `prompt_length` or `response_length`: verl's own loop does that, the pictures too."""
    timing = timing or EpisodeTiming()
    split = prompt_length(sample)
    return VerlAgentLoopOutput(
        prompt_ids=sample.token_ids[:split],
        response_ids=sample.token_ids[split:],
        response_mask=trainable_mask(sample)[split:],
        response_logprobs=sample.logprobs[split:],
        multi_modal_data={"images": [image.model_dump(exclude_none=True) for image in sample.images]}
        if sample.images
        else {},
        reward_score=trainable_reward(sample),
        num_turns=2 * len(sample.calls),
        metrics={
            "generate_sequences": timing.model,
            "tool_calls": max(0.0, timing.respond - timing.model),
            "compute_score": timing.verify,
            "num_preempted": -1,
        },
        extra_fields={
            "gym_sample_id": sample.sample_id,
            "gym_advantage_group": sample.advantage_group,
            "gym_mask_reason": sample.mask_reason,
            "gym_weight": sample.weight,
            "gym_logprobs_mode": sample.logprobs_mode,
        },
    )
