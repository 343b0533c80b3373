"""What must hold of a tool rollout's samples, whatever the environment: pictures, placeholders, tokens and rewards."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_core.capture.images import REFERENCE_PREFIX
from gym_core.types.sample import TrainingSample
from gym_core.types.trainer import RolloutLine
from gym_core.types.wire import JsonObject
from tests.live.scoring import Scorer

MAX_GAP = 2e-3
"""Between the engine's log-probabilities, from its cache, and those of one pass over the whole sample."""
SCALED_PX = 2_000_000
"""What a prompt's picture with more pixels is scaled to, where the agent's block says so."""


def prompt_images(row: JsonObject) -> list[str]:
    """SHA-256 of the pictures of a row's task."""
    return list(_images(row["responses_create_params"]["input"]))


def returned_images(row: JsonObject) -> list[str]:
    """SHA-256 of those that tools returned, in order."""
    return list(_images(row["response"]["output"]))


def _images(items: list[JsonObject]) -> Iterator[str]:
    for item in items:
        parts = item.get("content") or item.get("output")
        for part in parts if isinstance(parts, list) else ():
            if part["type"] == "input_image":
                yield part["image_url"].removeprefix(REFERENCE_PREFIX)


def check_sample(line: RolloutLine, folder: Path, scorer: Scorer) -> None:
    """The rollout's one sample: a sequence without drift, in which each answer is trained, and every picture of the row
    has its place. Its log-probabilities are computed again by a forward pass that knows the sample alone."""
    assert line.row is not None
    (sample,) = line.samples
    assert (sample.mask_reason, sample.drift, sample.logprobs_mode) == (None, None, "raw")
    _check_images(sample, line.row)
    _check_placeholders(sample, json.loads((folder / "config.json").read_bytes())["image_token_id"])
    assert len(sample.calls) == line.row["_gym_capture"]["calls"]
    assert all(call.is_trained for call in sample.calls)
    assert sum(sample.loss_mask) == sum(call.end - call.start for call in sample.calls)
    for call in sample.calls:
        urls = [image.data_url or "" for image in sample.images if (image.offset or 0) < call.start]
        told = scorer.logprobs(sample.token_ids[: call.start], sample.token_ids[call.start : call.end], urls)
        assert sample.logprobs[call.start : call.end] == pytest.approx(told, abs=MAX_GAP)


def _check_images(sample: TrainingSample, row: JsonObject) -> None:
    """Those of the task, scaled where they were too large to be shown, then those that tools returned."""
    asked, returned = prompt_images(row), returned_images(row)
    shown = [image.sha256 for image in sample.images]
    assert shown[len(asked) :] == returned
    assert len(shown) == len(asked) + len(returned)
    assert list(dict.fromkeys(shown)) == row["_gym_capture"]["images"]
    scaled = [image for image, sha256 in zip(sample.images, asked, strict=False) if image.sha256 != sha256]
    assert all(SCALED_PX * 0.9 < image.width * image.height <= SCALED_PX for image in scaled)


def _check_placeholders(sample: TrainingSample, image_token: int) -> None:
    at = [index for index, token in enumerate(sample.token_ids) if token == image_token]
    spans = [range(image.offset or 0, (image.offset or 0) + (image.length or 0)) for image in sample.images]
    assert at == [index for span in spans for index in span]
    for image in sample.images:
        assert image.data_url
        assert image.grid_hw
        assert image.grid_hw[0] * image.grid_hw[1] == image.length


def check_reward(line: RolloutLine, *, tool_bonus: float) -> None:
    """A trainer's reward is the score and its terms; the environment's own rule for tools stands for the request's."""
    assert line.row is not None
    score, shaping = line.row["reward"], line.row["reward_shaping"]
    is_paid = score == 1.0 and "tool_use" not in shaping
    bonus = tool_bonus * line.tool_calls if is_paid else 0.0
    assert line.reward == pytest.approx(score + sum(shaping.values()) + bonus)
    assert line.reward == pytest.approx(sum(line.reward_components.values()))
    assert shaping.items() <= line.reward_components.items()
    assert ("tool_bonus" in line.reward_components) == ("tool_use" not in shaping)
    for sample in line.samples:
        assert (sample.reward, sample.reward_components) == (line.reward, line.reward_components)
