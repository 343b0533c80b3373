"""A sample as turns: which tokens are trained, and which pictures the model had met before each of them."""

from collections.abc import Sequence

from gym_core.types.sample import BranchLabel, SampledSpan, SampleImage, TrainingSample


def trained_spans(sample: TrainingSample) -> list[SampledSpan]:
    """The answers that this sample trains, in token order. O(T).

    Raises ValueError when the spans and `loss_mask` disagree: no trainer's format could then be right.
    """
    spans = sorted(sample.calls, key=lambda span: span.start)
    end = 0
    for span in spans:
        if not end <= span.start <= span.end <= len(sample.token_ids):
            raise ValueError(f"sample {sample.sample_id!r}: call {span.call_id!r} at {span.start}:{span.end}")
        end = span.end
    trained = [span for span in spans if span.is_trained and span.end > span.start]
    marked = sum(sample.loss_mask)
    if marked != sum(sum(sample.loss_mask[span.start : span.end]) for span in trained) or marked != sum(
        span.end - span.start for span in trained
    ):
        raise ValueError(f"sample {sample.sample_id!r}: loss_mask does not mark exactly the trained answers")
    return trained


def trainable_mask(sample: TrainingSample) -> list[int]:
    """int[T]: `loss_mask`, all 0 for a masked sample, so that a trainer that knows no other mask trains none of it."""
    return [0] * len(sample.token_ids) if sample.mask else sample.loss_mask


def trainable_reward(sample: TrainingSample) -> float | None:
    """None for a masked sample, which is in no mean."""
    return None if sample.mask else sample.reward


def prompt_length(sample: TrainingSample) -> int:
    """Tokens before the first trained one; T when none is trained."""
    return sample.loss_mask.index(1) if 1 in sample.loss_mask else len(sample.token_ids)


def images_by_turn(sample: TrainingSample, spans: Sequence[SampledSpan]) -> list[list[SampleImage]]:
    """For each of `spans`, the pictures that came between the span before it and it, in order.

    A picture whose place in the tokens is not known counts to the first span from its own call on. One behind the last
    span is in no turn: no token of the turns follows it.
    """
    calls = [span.call_id for span in sample.calls]
    turns: list[list[SampleImage]] = [[] for _ in spans]
    for image in sample.images:
        turn = next((i for i, span in enumerate(spans) if _is_before(image, span, calls)), None)
        if turn is not None:
            turns[turn].append(image)
    return turns


def _is_before(image: SampleImage, span: SampledSpan, calls: Sequence[str]) -> bool:
    if image.offset is not None:
        return image.offset < span.start
    if image.call_id not in calls:
        return True
    return calls.index(image.call_id) <= calls.index(span.call_id)


def trainer_temperatures(sample: TrainingSample) -> list[float]:
    """Float[T]: what a trainer divides its logits by, so that its log-probabilities compare with `logprobs`.

    1 everywhere when those are "raw", of the model's own distribution whatever the sampling was; else the temperature
    that each answer was sampled with, 1 where none was sent and in prompts.
    """
    temperatures = [1.0] * len(sample.token_ids)
    if sample.logprobs_mode == "raw":
        return temperatures
    for span in sample.calls:
        if span.temperature is not None:
            temperatures[span.start : span.end] = [span.temperature] * (span.end - span.start)
    return temperatures


def trained_only(value: float, sample: TrainingSample) -> list[float]:
    """Float[T]: the value on tokens to be trained, 0 elsewhere."""
    return [value if marked else 0.0 for marked in trainable_mask(sample)]


def fullest(samples: Sequence[TrainingSample]) -> TrainingSample | None:
    """The one to train where a format takes one sequence a rollout. None for no samples.

    Of the main branch if there is one, not masked if there is one, with the most trained tokens, the latest of equals.
    """
    return max(samples, key=_fullness, default=None)


def _fullness(sample: TrainingSample) -> tuple[bool, bool, int, int]:
    return sample.branch_label is BranchLabel.MAIN, not sample.mask, sum(sample.loss_mask), sample.piece
