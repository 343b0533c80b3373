"""Training samples without a session: every shape that a conversation can leave, from numbers alone."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from gym_core.types.ids import TaskId
from gym_core.types.model_call import CallAnswer, CalledTool, CallOutcome, ModelCall
from gym_core.types.sample import BranchLabel, Drift, DriftReason, SampledSpan, SampleImage, TrainingSample
from gym_core.types.wire import JsonObject

IMAGE_TOKEN = 7
"""Of no other token in here."""


@dataclass(frozen=True)
class FakeTurn:
    """One call: what its prompt adds (text, then pictures), and what was sampled."""

    text: int = 3
    images: Sequence[int] = ()
    """Placeholders of each picture."""
    sampled: int = 2
    is_trained: bool = True
    finish_reason: str = "stop"
    temperature: float | None = 1.0


@dataclass
class _Growing:
    token_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    images: list[SampleImage] = field(default_factory=list)
    calls: list[SampledSpan] = field(default_factory=list)

    def add(self, ids: Sequence[int], *, mask: int = 0) -> None:
        for token_id in ids:
            self.token_ids.append(token_id)
            self.loss_mask.append(mask)
            self.logprobs.append(float(np.float32(-1 / (len(self.token_ids) + 3))) if mask else 0.0)


def sha256_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def make_sample(turns: Sequence[FakeTurn], **changes: object) -> TrainingSample:
    """A sample whose token ids say where they are, but for placeholders."""
    growing = _Growing()
    for number, turn in enumerate(turns):
        _add_turn(growing, number, turn)
    fields: dict[str, object] = {
        "sample_id": "t0-r0-a0.0.0",
        "rollout_id": "t0-r0",
        "task_id": TaskId(taskset="fake", task_id="0"),
        "environment": "puzzles",
        "advantage_group": "a" * 64,
        "repeat": 0,
        "branch_label": BranchLabel.MAIN,
        "reward": 1.0,
        "logprobs_mode": "processed",
        "sampling": {"temperature": 1.0, "top_p": 0.9},
    }
    return TrainingSample.model_validate(fields | vars(growing) | changes)


def _add_turn(growing: _Growing, number: int, turn: FakeTurn) -> None:
    call_id = f"call-{number}"
    start = len(growing.token_ids)
    growing.add(range(1000 + start, 1000 + start + turn.text))
    for length in turn.images:
        image = SampleImage(
            sha256=sha256_of(len(growing.images)),
            media_type="image/png",
            width=28 * length,
            height=28,
            call_id=call_id,
            offset=len(growing.token_ids),
            length=length,
            grid_hw=(1, length),
        )
        growing.images.append(image)
        growing.add([IMAGE_TOKEN] * length)
        growing.add([1000 + len(growing.token_ids)])
    start = len(growing.token_ids)
    growing.add(range(1000 + start, 1000 + start + turn.sampled), mask=int(turn.is_trained))
    span = SampledSpan(
        call_id=call_id,
        start=start,
        end=start + turn.sampled,
        is_trained=turn.is_trained,
        finish_reason=turn.finish_reason,
        temperature=turn.temperature,
        policy_version=number,
    )
    growing.calls.append(span)


def calls_of(sample: TrainingSample) -> dict[str, ModelCall]:
    """The conversation of each of its calls: a question with the pictures so far, and a tool's answer before that."""
    calls: dict[str, ModelCall] = {}
    for number, span in enumerate(sample.calls):
        seen = [image for image in sample.images if (image.offset or 0) < span.start]
        pictures = [{"type": "image_url", "image_url": {"url": f"sha256:{image.sha256}"}} for image in seen]
        spelled = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages: list[JsonObject] = [
            {"role": "assistant", "content": None, "tool_calls": [spelled]},
            {"role": "tool", "tool_call_id": "c", "content": "found"},
            {"role": "user", "content": [{"type": "text", "text": "what?"}, *pictures]},
        ]
        answer = CallAnswer(
            content=f"answer {number}",
            reasoning="",
            tool_calls=[CalledTool(id="d", name="read", arguments="{}")] if span.finish_reason == "tool_calls" else [],
            finish_reason=span.finish_reason,
            input_tokens=span.start,
            output_tokens=span.end - span.start,
        )
        calls[span.call_id] = ModelCall(
            call_id=span.call_id,
            session_id="s",
            index=number,
            sent_at=1.5,
            outcome=CallOutcome.ANSWERED,
            messages=messages,
            answer=answer,
        )
    return calls


TURNS = st.lists(
    st.builds(
        FakeTurn,
        text=st.integers(1, 5),
        images=st.lists(st.integers(1, 4), max_size=3),
        sampled=st.integers(1, 4),
        is_trained=st.booleans(),
        finish_reason=st.sampled_from(["stop", "length", "tool_calls"]),
        temperature=st.sampled_from([None, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=5,
)
DRIFTS = st.none() | st.builds(
    Drift,
    call_id=st.just("call-0"),
    parent_call_id=st.just("call-9"),
    position=st.integers(0, 9),
    tokens=st.integers(1, 9),
    sampled_tokens=st.integers(0, 1),
    reason=st.sampled_from(DriftReason),
)


@st.composite
def samples(draw: st.DrawFn) -> TrainingSample:
    mask_reason = draw(st.none() | st.just("capture_incomplete"))
    return make_sample(
        draw(TURNS),
        drift=draw(DRIFTS),
        mask=mask_reason is not None,
        mask_reason=mask_reason,
        reward=draw(st.sampled_from([0.0, 0.25, 1.0])),
        reward_components=draw(st.dictionaries(st.sampled_from(["right", "short"]), st.just(0.5))),
        advantage=draw(st.none() | st.sampled_from([-0.5, 0.75])),
        weight=draw(st.sampled_from([1.0, 0.3])),
        logprobs_mode=draw(st.sampled_from(["raw", "processed", "unknown"])),
    )
