"""NeMo RL: a rollout as the result that its NeMo Gym environment turns into a message log.

Source: NVIDIA-NeMo/RL, nemo_rl/environments/nemo_gym.py (`_postprocess_nemo_gym_to_nemo_rl_result`,
`extract_reward_components`, `validate_reward_components_match_scalar`), nemo_gym_multimodal.py
(`_index_per_turn_images`) and experience/mask_sample_rules.py, stored copies of 2026, looked up 2026-11-30:

- each item of `response.output` with non-empty `generation_token_ids` is trained; its `prompt_token_ids` must begin
  with all tokens seen before ("Non-contiguous messages found!"), `generation_log_probs` must not be NaN;
- pictures are taken from `input_image` parts of messages that are not the assistant's, and belong to the next trained
  item. Those before the first one are read from `response.agent_input`, else from the request's own input;
- a `function_call_output` counts as a picture when its `output` is a string that begins like a URL, and never when it
  is a list. So what tools returned is text here, and their pictures are in a user message behind it;
- `reward_components`, where there are any, sum to `reward`; a sample is masked by `instance_config.mask_sample`.

One rollout is one sequence there: of the main branch's pieces the one with the most trained tokens is taken, and
`_gym_drift` says what was left out.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gym_core.capture.images import REFERENCE_PREFIX, parse_reference
from gym_core.export.mask import MaskReason
from gym_core.export.turns import fullest, images_by_turn, trained_spans
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputPart,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ResponsesBody,
    ResponsesReply,
)
from gym_core.types.sample import SampledSpan, SampleImage, TrainingSample
from gym_core.types.wire import JsonObject

ImageUrl = Callable[[str], str]
"""Where the trainer finds a picture, by its SHA-256: a `data:` or `file://` URL. Raises LookupError for none."""

_BREAKS_THE_FORWARD_PASS = (
    MaskReason.SAMPLED_IMAGE_PLACEHOLDER,
    MaskReason.IMAGE_PLACEHOLDERS_MISMATCH,
    MaskReason.IMAGE_MISSING,
)
"""NeMo RL runs masked samples through the model too; these have another number of pictures than of placeholders."""

_LOOKS_LIKE_A_PICTURE = ("data:image/", "http://", "https://", "file://")
_Made = OutputMessage | ReasoningItem | FunctionCall
"""Items that the model made."""


class NoSequence(ValueError):
    """A rollout without tokens that NeMo RL can run through the model. The message is a mask reason."""


@dataclass(frozen=True)
class _Turn:
    """What came before an answer, and the answer."""

    before: Sequence[OutputItem]
    made: Sequence[_Made]


def nemo_rl_result(row: JsonObject, samples: Sequence[TrainingSample], image_url: ImageUrl) -> JsonObject:
    """The result of one rollout: its row (docs/results.md) with tokens on the items of `response.output`.

    `samples` are the rollout's. Costs what the format does: K calls of T tokens are O(K * T).
    Raises NoSequence when no sample can be run through a model.
    """
    sample = fullest([s for s in samples if s.mask_reason not in _BREAKS_THE_FORWARD_PASS and any(s.loss_mask)])
    if sample is None:
        raise NoSequence(next((s.mask_reason for s in samples if s.mask_reason), "no_trained_tokens"))
    spans = trained_spans(sample)
    images = [[_picture(image, image_url) for image in turn] for turn in images_by_turn(sample, spans)]
    turns = _turns(row, sample, spans)
    output = [item for k in range(len(spans)) for item in _items(sample, spans[k], turns[k], images[k] if k else [])]
    check_contiguous(output)
    body = ResponsesBody.model_validate(row["responses_create_params"])
    response = {**_empty_response(row), "output": output, "agent_input": _agent_input(body, images[0])}
    changed = {"response": response, "responses_create_params": _with_urls(body, image_url)}
    return row | _reward(row, sample) | changed | {"_gym_drift": _drift(samples, sample)}


def check_contiguous(output: Sequence[JsonObject]) -> None:
    """Raises ValueError where NeMo RL would raise: a prompt that does not begin with all tokens before it."""
    seen: list[int] = []
    for item in output:
        if not item.get("generation_token_ids"):
            continue
        if item["prompt_token_ids"][: len(seen)] != seen:
            raise ValueError(f"prompt of item {item.get('id')!r} does not begin with the {len(seen)} tokens before it")
        if len(item["generation_log_probs"]) != len(item["generation_token_ids"]):
            raise ValueError(f"item {item.get('id')!r}: as many log-probabilities as tokens are needed")
        seen = item["prompt_token_ids"] + item["generation_token_ids"]


def _items(
    sample: TrainingSample, span: SampledSpan, turn: _Turn, images: Sequence[InputImage]
) -> Iterator[JsonObject]:
    """The turn's items, pictures last before the answer, tokens on the answer's last item."""
    before: list[OutputItem] = [_without_pictures(item) for item in turn.before]
    if images:
        before.append(InputMessage(role="user", content=list(images)))
    yield from (item.model_dump(exclude_none=True) for item in (*before, *turn.made[:-1]))
    yield turn.made[-1].model_dump(exclude_none=True) | {
        "prompt_token_ids": sample.token_ids[: span.start],
        "generation_token_ids": sample.token_ids[span.start : span.end],
        "generation_log_probs": sample.logprobs[span.start : span.end],
    }


def _turns(row: JsonObject, sample: TrainingSample, spans: Sequence[SampledSpan]) -> list[_Turn]:
    """The words to the tokens, from the harness's transcript; a bare message each where the two do not match.

    They match when there are as many turns as calls. A sample that is a piece, or misses a compaction, has fewer.
    """
    turns = list(_transcript_turns(row))
    calls = [span.call_id for span in sorted(sample.calls, key=lambda span: span.start)]
    if len(turns) != len(calls):
        bare = [OutputText(text="")]
        return [_Turn((), [OutputMessage(id=span.call_id, content=bare)]) for span in spans]
    return [turns[calls.index(span.call_id)] for span in spans]


def _transcript_turns(row: JsonObject) -> Iterator[_Turn]:
    before: list[OutputItem] = []
    made: list[_Made] = []
    for item in ResponsesReply.model_validate(row["response"]).output if row.get("response") else []:
        if isinstance(item, _Made):
            made.append(item)
            continue
        if made:
            yield _Turn(before, made)
            before, made = [], []
        before.append(item)
    if made:
        yield _Turn(before, made)


def _without_pictures(item: OutputItem) -> OutputItem:
    if isinstance(item, InputMessage) and not isinstance(item.content, str):
        return item.model_copy(update={"content": [part for part in item.content if isinstance(part, InputText)]})
    if isinstance(item, FunctionCallOutput):
        text = item.output
        if not isinstance(text, str):
            text = "".join(part.text for part in text if isinstance(part, InputText))
        harmless = [InputText(text=text)] if text.startswith(_LOOKS_LIKE_A_PICTURE) else text
        return item.model_copy(update={"output": harmless})
    return item


def _picture(image: SampleImage, image_url: ImageUrl) -> InputImage:
    try:
        return InputImage(image_url=image_url(image.sha256))
    except LookupError as error:
        raise NoSequence(MaskReason.IMAGE_MISSING.value) from error


def _agent_input(body: ResponsesBody, images: Sequence[InputImage]) -> list[JsonObject]:
    """The task's input with exactly the pictures that came before the first trained answer."""
    items = [_without_pictures(item) for item in body.items]
    if images:
        items.append(InputMessage(role="user", content=list(images)))
    return [item.model_dump(exclude_none=True) for item in items]


def _with_urls(body: ResponsesBody, image_url: ImageUrl) -> JsonObject:
    items = [_item_with_urls(item, image_url) for item in body.items]
    return body.model_copy(update={"input": items}).model_dump(exclude_none=True)


def _item_with_urls(item: OutputItem, image_url: ImageUrl) -> OutputItem:
    if not isinstance(item, InputMessage) or isinstance(item.content, str):
        return item
    return item.model_copy(update={"content": [_part_with_url(part, image_url) for part in item.content]})


def _part_with_url(part: InputPart, image_url: ImageUrl) -> InputPart:
    """A reference that leads nowhere stays: the policy was not shown that picture, or the sample is masked."""
    if not isinstance(part, InputImage) or not part.image_url.startswith(REFERENCE_PREFIX):
        return part
    with suppress(LookupError):
        return InputImage(image_url=image_url(parse_reference(part.image_url)), detail=part.detail)
    return part


def _empty_response(row: JsonObject) -> JsonObject:
    return {key: value for key, value in (row.get("response") or {}).items() if key != "output"}


def _reward(row: JsonObject, sample: TrainingSample) -> JsonObject:
    """A masked one gets a number as well, which nothing is made of there: NeMo RL has no null."""
    reward = sample.reward if sample.reward is not None else 0.0
    components = {} if sample.mask else sample.reward_components
    adds_up = math.isclose(sum(components.values()), reward, rel_tol=1e-6, abs_tol=1e-7)
    return {
        "reward": reward,
        "reward_components": components if components and adds_up else None,
        "mask_sample": sample.mask,
        "instance_config": (row.get("instance_config") or {}) | {"mask_sample": sample.mask},
        "_gym_mask_reason": sample.mask_reason,
    }


def _drift(samples: Sequence[TrainingSample], taken: TrainingSample) -> JsonObject | None:
    """None when the sample holds all that was sampled on the way to the answer."""
    left = [s for s in samples if s.sample_id != taken.sample_id]
    if not left:
        return None
    return {
        "taken": taken.sample_id,
        "left_out": [s.sample_id for s in left],
        "left_out_tokens": sum(sum(s.loss_mask) for s in left),
        "reasons": sorted({s.drift.reason.value for s in samples if s.drift}),
    }
