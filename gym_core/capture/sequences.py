"""The calls of a session as training sequences: each exactly what the policy saw and sampled.

A session is a tree of conversations (see `gym_core.capture.lineage`). A branch is a path of it from a first call to a
last one; where the tokens do not go on it is cut into pieces, each a sequence that can be trained by itself. Every
sampled token of a complete call has `loss_mask` 1 in exactly one piece: the main branch comes first and owns what it
shares with others. A piece that would train nothing is left out.

Linear in the tokens of the calls, whatever the shape: each prompt is compared with one earlier call.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from gym_core.capture.conversation import TurnMemory
from gym_core.capture.drift import Decode
from gym_core.capture.labels import LabelledPath, labelled_paths
from gym_core.capture.lineage import Lineage, LinkedCall
from gym_core.capture.payload import Logprobs
from gym_core.capture.recorder import CallTokens, CapturedCall
from gym_core.capture.token_table import Ids
from gym_core.types.model_call import CallOutcome, CaptureGap, ModelCall
from gym_core.types.sample import BranchLabel, Drift, DriftReason, SequenceSummary
from gym_core.types.wire import JsonObject

UNREADABLE = "unreadable"
NO_ANSWER = "no_answer"
_NO_FACTS: JsonObject = {"messages": (), "tools": (), "sampling": {}, "images": (), "images_added": (), "notes": ()}
"""Said so that pydantic copies no defaults, which takes longer than all the rest."""
_NOT_ANSWERED = frozenset(str(outcome) for outcome in CallOutcome)


@dataclass(frozen=True)
class UntrainedCall:
    """One that no piece trains."""

    call_id: str
    why: str
    """A `CallOutcome` word for one that was not answered, a `CaptureGap` word for one whose capture lacks something,
    "no_answer" or "unreadable"."""


@dataclass(frozen=True)
class CallSpan:
    """The sampled tokens of one call within a piece: half open, from 0."""

    call: ModelCall
    """Its facts, without the conversation and the tokens."""
    start: int
    end: int
    is_trained: bool
    """False where another piece trains them."""


@dataclass(frozen=True)
class SeenImage:
    """A picture of the conversation, in the order in which the model met it."""

    sha256: str
    call_id: str
    """The call whose prompt brought it first."""


@dataclass(frozen=True, eq=False)
class Piece:
    """One sequence of T tokens."""

    token_ids: Ids
    """int32[T], read-only: the last call's prompt as the engine gave it, and what it sampled."""
    loss_mask: npt.NDArray[np.int8]
    """int8[T]: 1 on sampled tokens that this piece trains."""
    logprobs: Logprobs
    """float32[T], natural log; 0 where `loss_mask` is 0."""
    spans: tuple[CallSpan, ...]
    """In token order."""
    images: tuple[SeenImage, ...]
    """Of the last call's messages, in order, repeats included."""
    drift: Drift | None
    """Why it begins a new sequence; None for the first piece of a branch."""

    @property
    def last_call(self) -> ModelCall:
        return self.spans[-1].call


@dataclass(frozen=True)
class Branch:
    label: BranchLabel
    pieces: tuple[Piece, ...]
    """Empty when other branches train all of it, or when none of its calls is complete."""
    call_ids: tuple[str, ...]
    """Of its answered calls, first to last."""
    mask_reason: str | None
    """Why none of it should be trained; None for none."""


@dataclass(frozen=True)
class SessionSequences:
    branches: tuple[Branch, ...]
    """The main branch first, where there is one; the others in the order in which they ended."""
    untrained: tuple[UntrainedCall, ...]
    drifts: tuple[Drift, ...]
    """Each break once, in the order of the calls."""
    summary: SequenceSummary
    read: int
    """Calls that were given, whatever became of them."""

    @property
    def main(self) -> Branch | None:
        first = self.branches[0] if self.branches else None
        return first if first and first.label is BranchLabel.MAIN else None


def join(
    calls: Iterable[CapturedCall], *, final_answer: str | None = None, decode: Decode | None = None
) -> SessionSequences:
    """Sequences of one session's calls, given as `read_captured` gives them: in the order they ended.

    `final_answer` is the text that was graded: it finds the main branch. `decode` tells re-tokenised text from
    re-rendered text for sure; it must keep special tokens.
    """
    turns = TurnMemory()
    lineage = Lineage(turns, decode)
    outcomes = [_add(lineage, captured) for captured in calls]
    untrained = tuple(found for found in outcomes if found is not None)
    owned: set[int] = set()
    branches = tuple(_branch(path, owned, turns) for path in labelled_paths(lineage, final_answer))
    drifts = tuple(call.drift for call in lineage.calls if call.drift)
    counts = SequenceSummary(
        calls=sum(call.stretch is not None for call in lineage.calls),
        incomplete_calls=sum(call.why not in _NOT_ANSWERED for call in untrained),
    )
    return SessionSequences(branches, untrained, drifts, _summary(branches, drifts, counts), len(outcomes))


def _add(lineage: Lineage, captured: CapturedCall) -> UntrainedCall | None:
    try:
        facts = ModelCall.model_validate(_NO_FACTS | captured.facts)
    except ValidationError:
        return UntrainedCall(str(captured.facts.get("call_id", ""))[:128], UNREADABLE)
    if facts.outcome is not CallOutcome.ANSWERED:
        return UntrainedCall(facts.call_id, facts.outcome)
    if facts.answer is None:
        return UntrainedCall(facts.call_id, NO_ANSWER)
    gap = _gap(facts, captured.tokens)
    try:
        lineage.add(captured, facts, facts.answer, captured.tokens if gap is None else None)
    except ValueError:
        return UntrainedCall(facts.call_id, UNREADABLE)
    return UntrainedCall(facts.call_id, gap) if gap else None


def _gap(facts: ModelCall, tokens: CallTokens | None) -> CaptureGap | None:
    """What the capture of an answer lacks first. Captures of older versions name no gaps: their arrays are counted."""
    if facts.gaps:
        return facts.gaps[0]
    if tokens is None:
        return CaptureGap.NO_PROMPT_IDS
    if tokens.logprobs_S is None or len(tokens.logprobs_S) != len(tokens.ids_S):
        # A recorder keeps no empty array of log-probabilities.
        return None if len(tokens.ids_S) == 0 and tokens.logprobs_S is None else CaptureGap.IDS_NOT_LOGPROBS
    return None


def _branch(path: LabelledPath, owned: set[int], turns: TurnMemory) -> Branch:
    pieces = []
    brought = _Brought(turns)
    run: list[LinkedCall] = []
    for call in path.calls:
        if call.stretch is not None:
            if run and call.token_parent is not run[-1]:
                pieces += _piece(run[-1], run[0].drift, owned, brought)
                run = []
            run.append(call)
        brought.add(call)
    if run:
        pieces += _piece(run[-1], run[0].drift, owned, brought)
    return Branch(path.label, tuple(pieces), tuple(call.id for call in path.calls), path.mask_reason)


def _piece(last: LinkedCall, drift: Drift | None, owned: set[int], brought: "_Brought") -> list[Piece]:
    """The sequence that ends in a call, as a list of one; of none when other pieces train all of it."""
    assert last.stretch is not None
    n_full = last.stretch.n_full
    loss_mask = np.zeros(n_full, np.int8)
    logprobs = np.zeros(n_full, np.float32)
    spans = []
    for call in last.token_path():
        stretch = call.stretch
        assert stretch is not None
        is_trained = call.order not in owned
        spans.append(CallSpan(call.facts, stretch.n_prompt, stretch.n_full, is_trained))
        if is_trained:
            loss_mask[stretch.n_prompt : stretch.n_full] = 1
            logprobs[stretch.n_prompt : stretch.n_full] = stretch.logprobs_S
    if not any(span.is_trained and span.end > span.start for span in spans):
        return []
    owned.update(call.order for call in last.token_path())
    return [Piece(last.stretch.full, loss_mask, logprobs, tuple(spans), brought.up_to(last), drift)]


class _Brought:
    """The pictures of a branch and who brought them, followed from call to call at the cost of what is new."""

    def __init__(self, turns: TurnMemory) -> None:
        self._turns = turns
        self._messages: tuple[bytes, ...] = ()
        self._images: list[SeenImage] = []
        self._by_call: dict[int, tuple[list[SeenImage], int]] = {}
        """The list that a call's pictures are the beginning of, and how many they are."""

    def add(self, call: LinkedCall) -> None:
        if call.messages[: len(self._messages)] != self._messages:
            before = {image.sha256: image for image in reversed(self._images)}
            images = [sha256 for raw in call.messages for sha256 in self._turns.read(raw).images]
            self._images = [before.get(sha256, SeenImage(sha256, call.id)) for sha256 in images]
        else:
            for raw in call.messages[len(self._messages) :]:
                self._images += [SeenImage(sha256, call.id) for sha256 in self._turns.read(raw).images]
        self._messages = call.messages
        self._by_call[call.order] = self._images, len(self._images)

    def up_to(self, call: LinkedCall) -> tuple[SeenImage, ...]:
        images, n = self._by_call[call.order]
        return tuple(images[:n])


def _summary(branches: Sequence[Branch], drifts: Sequence[Drift], counts: SequenceSummary) -> SequenceSummary:
    pieces = [piece for branch in branches for piece in branch.pieces]
    labels = [branch.label for branch in branches]
    reasons = [drift.reason for drift in drifts]
    found = {
        "branches": {label: labels.count(label) for label in BranchLabel if label in labels},
        "pieces": len(pieces),
        "sampled_tokens": sum(int(np.count_nonzero(piece.loss_mask)) for piece in pieces),
        "tokens": sum(len(piece.token_ids) for piece in pieces),
        "drifts": {reason: reasons.count(reason) for reason in DriftReason if reason in reasons},
        "drifted_tokens": sum(drift.tokens for drift in drifts),
    }
    return counts.model_copy(update=found)
