"""verifiers: a rollout's `trajectory`, one step a call, with its messages and `TrajectoryStepTokens`.

Source: PrimeIntellect-ai/verifiers, verifiers/types.py, classes TrajectoryStep (prompt, completion, response, tokens,
reward, advantage, is_truncated, trajectory_id, extras: all required), Response and ResponseMessage, AssistantMessage,
ToolCall, and TrajectoryStepTokens (prompt_ids, prompt_mask, completion_ids, completion_mask, completion_logprobs,
overlong_prompt, is_truncated, routed_experts: required; multi_modal_data, prompt_attribution: not), as of 2026-08,
looked up 2026-11-30.

Left out: `multi_modal_data` (processed pixels; the pictures are in `extras`) and `prompt_attribution`. `response.usage`
is null: nobody counts reasoning tokens apart. Pictures in messages are `sha256:` references, or data URLs where the
sample has those. Each step repeats its whole prompt, as the format has it: K calls of T tokens cost O(K * T).
"""

from collections.abc import Mapping
from typing import TypedDict

from gym_core.capture.images import make_reference
from gym_core.export.turns import images_by_turn, trainable_reward, trained_spans
from gym_core.types.model_call import CallAnswer, ModelCall
from gym_core.types.sample import SampledSpan, TrainingSample
from gym_core.types.wire import JsonObject

FINISH_REASONS = frozenset({"stop", "length", "tool_calls"})
"""Those that a `ResponseMessage` may have; others are null there."""
TRUNCATED = "length"
"""Finish reason of an answer that a token limit cut."""


class TrajectoryStepTokens(TypedDict):
    """P prompt tokens, C sampled ones."""

    prompt_ids: list[int]
    prompt_mask: list[int]
    """int[P], all 0: a prompt is not trained, the answers of earlier steps in it neither."""
    completion_ids: list[int]
    completion_mask: list[int]
    """int[C], all 1; all 0 for a masked sample."""
    completion_logprobs: list[float]
    """float[C]."""
    overlong_prompt: bool
    is_truncated: bool
    routed_experts: None


class ToolCall(TypedDict):
    id: str
    name: str
    arguments: str


class AssistantMessage(TypedDict):
    role: str
    content: str
    reasoning_content: str | None
    tool_calls: list[ToolCall] | None


class ResponseMessage(AssistantMessage):
    finish_reason: str | None
    is_truncated: bool
    tokens: None
    """They are in the step's `tokens`."""


class Response(TypedDict):
    id: str
    """Of the call."""
    created: int
    """Unix time, seconds, at which it was sent."""
    model: str
    usage: None
    message: ResponseMessage


class TrajectoryStep(TypedDict):
    prompt: list[JsonObject]
    """As sent to the endpoint; tool calls in them flat, as verifiers has them."""
    completion: list[AssistantMessage]
    """One: the answer."""
    response: Response
    tokens: TrajectoryStepTokens
    reward: float | None
    """None for a masked sample, as its advantage."""
    advantage: float | None
    is_truncated: bool
    trajectory_id: str
    """Of the sample: the steps of one extend each other."""
    extras: JsonObject
    """`call_id`; `images`: the pictures that this step's prompt adds, in order; `mask_reason`."""


def trajectory_steps(
    sample: TrainingSample, calls: Mapping[str, ModelCall], *, model: str = ""
) -> list[TrajectoryStep]:
    """Steps in order; the prompt of each begins with all tokens of the one before.

    `calls`: those of the sample by id, their tokens not needed; `model`: the endpoint's name of it. Raises KeyError for
    a call that is not among them.
    """
    spans = trained_spans(sample)
    urls = {make_reference(image.sha256): image.data_url for image in sample.images if image.data_url}
    return [
        TrajectoryStep(
            prompt=[_prompt_message(message, urls) for message in calls[span.call_id].messages],
            completion=[_assistant(_answer(calls[span.call_id]))],
            response=_response(calls[span.call_id], model),
            tokens=_tokens(sample, span),
            reward=trainable_reward(sample),
            advantage=None if sample.mask else sample.advantage,
            is_truncated=span.finish_reason == TRUNCATED,
            trajectory_id=sample.sample_id,
            extras={
                "call_id": span.call_id,
                "images": [image.model_dump(exclude_none=True) for image in images],
                "mask_reason": sample.mask_reason,
            },
        )
        for span, images in zip(spans, images_by_turn(sample, spans), strict=True)
    ]


def _tokens(sample: TrainingSample, span: SampledSpan) -> TrajectoryStepTokens:
    return TrajectoryStepTokens(
        prompt_ids=sample.token_ids[: span.start],
        prompt_mask=[0] * span.start,
        completion_ids=sample.token_ids[span.start : span.end],
        completion_mask=[int(not sample.mask)] * (span.end - span.start),
        completion_logprobs=sample.logprobs[span.start : span.end],
        overlong_prompt=False,
        is_truncated=span.finish_reason == TRUNCATED,
        routed_experts=None,
    )


def _answer(call: ModelCall) -> CallAnswer:
    if call.answer is None:
        raise KeyError(f"{call.call_id}: no answer")
    return call.answer


def _response(call: ModelCall, model: str) -> Response:
    answer = _answer(call)
    finish_reason = answer.finish_reason if answer.finish_reason in FINISH_REASONS else None
    message = ResponseMessage(
        **_assistant(answer),
        finish_reason=finish_reason,
        is_truncated=finish_reason == TRUNCATED,
        tokens=None,
    )
    return Response(id=call.call_id, created=int(call.sent_at), model=model, usage=None, message=message)


def _assistant(answer: CallAnswer) -> AssistantMessage:
    return AssistantMessage(
        role="assistant",
        content=answer.content,
        reasoning_content=answer.reasoning or None,
        tool_calls=[ToolCall(id=c.id, name=c.name, arguments=c.arguments) for c in answer.tool_calls] or None,
    )


def _prompt_message(message: JsonObject, urls: Mapping[str, str]) -> JsonObject:
    """As it was sent, but for flat tool calls, and pictures inline where `urls` has them."""
    changed = dict(message)
    if isinstance(calls := message.get("tool_calls"), list):
        changed["tool_calls"] = [_flat(call) for call in calls]
    if urls and isinstance(parts := message.get("content"), list):
        changed["content"] = [_part(part, urls) for part in parts]
    return changed


def _flat(call: object) -> object:
    """A tool call of chat completions as verifiers has it; anything else, which a harness may have sent, as it is."""
    match call:
        case {"id": str(call_id), "function": {"name": str(name), "arguments": str(arguments)}}:
            return ToolCall(id=call_id, name=name, arguments=arguments)
    return call


def _part(part: object, urls: Mapping[str, str]) -> object:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}} if url in urls:
            return {"type": "image_url", "image_url": {"url": urls[url]}}
    return part
