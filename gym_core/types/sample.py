"""A training sample: one token sequence, exactly as the policy saw and sampled it, with its pictures and its reward.

Lengths: T tokens in all. `token_ids`, `loss_mask` and `logprobs` have one entry a token. Spans are half open and count
tokens of this sample, from 0.
"""

from enum import StrEnum
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from gym_core.types.ids import SafeId, TaskId
from gym_core.types.wire import BulkyWire, JsonObject, Wire

SAMPLE_SCHEMA_VERSION: Literal[1] = 1

_DOCUMENTED = ConfigDict(use_attribute_docstrings=True)
"""The strings under the fields are their descriptions in the JSON Schema (docs/training-sample.schema.json)."""


class BranchLabel(StrEnum):
    """What a branch of a session is to its rollout."""

    MAIN = "main"
    """It ends in the answer that was graded."""
    SUBAGENT = "subagent"
    COMPACTION = "compaction"
    """A call that summed the conversation up, or the part of it that was summed up."""
    TITLE = "title"
    RETRY = "retry"
    """A call that was asked again with the same conversation; the conversation went on with another answer."""
    SIDE = "side"
    """None of these could be told."""


class DriftReason(StrEnum):
    """Why a prompt does not begin with the tokens that were sampled before it."""

    RETOKENIZED = "retokenized"
    """The same text in other tokens."""
    REASONING_DROPPED = "reasoning_dropped"
    """The chat template, or the harness, left earlier reasoning out."""
    HISTORY_EDITED = "history_edited"
    """The messages themselves differ from what was sent and answered before."""
    RERENDERED = "rerendered"
    """The same messages, rendered to another text: a re-serialised tool call, lost special tokens, white space."""
    SYSTEM_CHANGED = "system_changed"
    """The system prompt or the tools differ."""


class Drift(Wire):
    """A place where a conversation went on and its tokens did not."""

    model_config = _DOCUMENTED

    call_id: str
    """The first call with the changed prompt."""
    parent_call_id: str
    """The call whose conversation it continues."""
    position: int
    """Of the first token of the prompt that differs from what was seen and sampled before."""
    tokens: int
    """How many tokens, from there on, of the earlier prompt and answer are not continued."""
    sampled_tokens: int
    """Those of them that the policy had sampled."""
    reason: DriftReason


class SequenceSummary(Wire):
    """The sequences of one session in numbers."""

    calls: int = 0
    """That were answered whole, token ids and log-probabilities included."""
    incomplete_calls: int = 0
    """Answered, but some token of it is not known: none of it is trained."""
    branches: dict[BranchLabel, int] = {}
    pieces: int = 0
    sampled_tokens: int = 0
    tokens: int = 0
    """Over all pieces."""
    drifts: dict[DriftReason, int] = {}
    drifted_tokens: int = 0


class SampleImage(Wire):
    """One picture, in the order in which the model met it."""

    model_config = _DOCUMENTED

    sha256: str
    media_type: str
    width: int
    """Pixels of the file as it was sent; the engine may have scaled it."""
    height: int
    call_id: str
    """The call whose prompt brought it first."""
    offset: int | None = None
    """Of its first placeholder in `token_ids`; None when the placeholders could not be told."""
    length: int | None = None
    """Number of its placeholders."""
    grid_hw: tuple[int, int] | None = None
    """Placeholders down and across, for models that lay them out in a grid: rows * columns = length."""
    data_url: str | None = None
    """The bytes as sent, where the caller asked for them inline."""

    @model_validator(mode="after")
    def _is_one_span(self) -> Self:
        if (self.offset is None) != (self.length is None):
            raise ValueError("offset and length go together")
        return self


class SampledSpan(Wire):
    """The tokens of one call's answer."""

    model_config = _DOCUMENTED

    call_id: str
    start: int
    end: int
    is_trained: bool
    """False for tokens that another sample trains: `loss_mask` is 0 on them."""
    finish_reason: str
    temperature: float | None = None
    """As it was sent; None leaves it to the endpoint."""
    policy_version: int | None = None
    """When the call was sent; None when nobody set one."""
    policy_version_end: int | None = None
    """When its answer was whole: another one means that the weights changed meanwhile."""


class TrainingSample(BulkyWire):
    """Schema of a line of an export, and of `samples` in the lines of POST /v1/rollouts."""

    model_config = _DOCUMENTED

    schema_version: Literal[1] = SAMPLE_SCHEMA_VERSION
    sample_id: str
    """`<episode>.<branch>.<piece>`; unique within a run."""
    rollout_id: SafeId
    attempt: int = 0
    task_id: TaskId
    task_index: int = 0
    environment: str
    advantage_group: str
    """Equal for the rollouts of one task of a request: its content hash, with "-2" for the second of one content."""
    repeat: int
    branch: int = 0
    branch_label: BranchLabel
    piece: int = 0
    """A branch is cut where its tokens do not go on; each piece can be trained by itself."""

    token_ids: list[int]
    """int32[T], the prompt included; each picture's placeholders expanded as the engine reports them."""
    loss_mask: list[int]
    """int8[T]: 1 on sampled tokens that this sample trains. A sampled token is 1 in exactly one sample."""
    logprobs: list[float]
    """float32[T], natural log, of the sampling policy; 0 where `loss_mask` is 0."""
    images: list[SampleImage] = []
    """In the order of their placeholders."""
    calls: list[SampledSpan] = []
    """The answers in `token_ids`, in token order; all else is prompt."""
    drift: Drift | None = None
    """Why this piece begins a new sequence; None for the first piece of a branch."""

    reward: float | None
    """The environment's, in [0, 1], and what is added for training. None exactly when the rollout is masked."""
    reward_components: dict[str, float] = {}
    """Name to number: what `reward` is the sum of. "accuracy" is the environment's own, where it names no parts."""
    advantage: float | None = None
    """One for all trained tokens; None when no group was asked for."""
    weight: float = Field(default=1.0, ge=0)
    """Of the sample in the loss; below 1 where a switch of the request says so."""
    mask: bool = False
    """True: not for training, `mask_reason` says why. The tokens are here all the same."""
    mask_reason: str | None = None
    """A stable word (docs/training.md lists them); None for a sample that is for training."""
    is_truncated: bool = False
    """The last trained answer was cut by a token limit."""
    logprobs_mode: Literal["raw", "processed", "unknown"] = "unknown"
    """"raw": of the model's own distribution; "processed": after temperature, top_k and top_p."""
    sampling: JsonObject = {}
    """Of the last call, as sent, without what only shapes the reply."""

    @model_validator(mode="after")
    def _is_aligned(self) -> Self:
        n = len(self.token_ids)
        if len(self.loss_mask) != n or len(self.logprobs) != n:
            raise ValueError(f"{n} token_ids, {len(self.loss_mask)} loss_mask, {len(self.logprobs)} logprobs")
        if self.mask != (self.mask_reason is not None):
            raise ValueError("mask and mask_reason go together")
        return self
