"""The small part of a rollout's line that a table needs, read without decoding the trajectory: 0.2 ms for 200 KB.

Strangers' bytes: unknown fields are skipped, a line of another shape is a ValueError, and what is shown is cut.
"""

import re
from collections import Counter

import msgspec

from gym_core.statistics.outcome import Outcome, agreement_with_matcher, kept_answer
from gym_core.types.ids import SAFE_ID, EpisodeId
from gym_core.types.rollout import EpisodeEvidence, EpisodeTiming, RolloutKey
from gym_core.types.sample import SequenceSummary
from gym_core.types.session import CaptureSummary, SandboxEnforcement
from gym_core.types.wire import JsonObject
from gym_core.viewer.types import RolloutRow

MAX_SHOWN = 240
"""Characters of a question, an answer or a name in a table."""
_LARGEST = 2.0**53
"""A page counts exactly until there."""
_SAFE_ID = re.compile(SAFE_ID)
_MODEL_ITEMS = frozenset({"message", "reasoning", "function_call"})


class _Item(msgspec.Struct):
    type: str = ""
    role: str = ""


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Response(msgspec.Struct):
    output: list[_Item] = []
    usage: _Usage | None = None


class _Agent(msgspec.Struct):
    tool_calls: dict[str, int] = {}
    notes: list[str] = []


class _TaskId(msgspec.Struct):
    taskset: str = ""
    task_id: str = ""


class _Failure(msgspec.Struct):
    kind: str = ""


class _Line(msgspec.Struct):
    index: int = msgspec.field(name="_ng_task_index")
    repeat: int = msgspec.field(name="_ng_rollout_index")
    attempt: int = msgspec.field(name="_ng_attempt_index")
    rollout_id: str = msgspec.field(name="_ng_rollout_id")
    task_hash: str = msgspec.field(name="_gym_task_hash")
    finished_at: float = msgspec.field(name="_gym_finished_at")
    timing: JsonObject = msgspec.field(name="_gym_timing")
    agent: _Agent = msgspec.field(name="_gym_agent")
    reward: float | None
    environment: str = msgspec.field(name="_gym_environment", default="")
    attempts: int = msgspec.field(name="_gym_attempts", default=1)
    capture: JsonObject | None = msgspec.field(name="_gym_capture", default=None)
    sandbox: JsonObject | None = msgspec.field(name="_gym_sandbox", default=None)
    sequences: JsonObject | None = msgspec.field(name="_gym_sequences", default=None)
    failure: _Failure | None = msgspec.field(name="_gym_failure", default=None)
    measures: dict[str, float] = msgspec.field(name="_gym_measures", default={})
    task_id: _TaskId | None = None
    response: _Response | None = None
    question: object = None
    expected_answer: object = None
    extracted_answer: object = None
    judge_verdict: object = None
    judge_model: object = None
    judge_usage: object = None
    matcher_equal: object = None
    category: object = None
    l2_category: object = None


class RowFacts(msgspec.Struct, frozen=True):
    """One line of the file: where it is, its line in the table, and what the metrics need of it."""

    offset: int
    length: int
    environment: str
    key: RolloutKey
    row: RolloutRow
    outcome: Outcome
    evidence: EpisodeEvidence
    """Without the response."""
    judge_usage: object
    """The grader's column with the tokens of its judge."""

    @property
    def session_id(self) -> str | None:
        return self.evidence.capture.session_id if self.evidence.capture else None


_DECODER = msgspec.json.Decoder(_Line)


def read_facts(content: bytes, offset: int) -> RowFacts:
    """Raises ValueError (msgspec's is one) for a line that is no finished rollout."""
    line = _DECODER.decode(content)
    if not _SAFE_ID.match(line.rollout_id):
        raise ValueError("a rollout id that is none")
    if line.reward is not None and not 0.0 <= line.reward <= 1.0:
        raise ValueError(f"reward {line.reward}")
    evidence = EpisodeEvidence(
        episode_id=EpisodeId(rollout_id=line.rollout_id, attempt=line.attempt),
        capture=CaptureSummary.model_validate(line.capture) if line.capture else None,
        sequences=SequenceSummary.model_validate(line.sequences) if line.sequences else None,
        sandbox=SandboxEnforcement.model_validate(line.sandbox) if line.sandbox else None,
        timing=EpisodeTiming.model_validate(line.timing),
    )
    capture, sequences, timing = evidence.capture, evidence.sequences, evidence.timing
    usage = (line.response and line.response.usage) or _Usage()
    _check_numbers(line.finished_at, *timing.model_dump().values(), usage.input_tokens, usage.output_tokens)
    _check_numbers(line.index, line.repeat, line.attempts, *line.agent.tool_calls.values())
    _check_numbers(*map(abs, line.measures.values()))
    failure = line.failure.kind if line.failure else None
    row = RolloutRow(
        id=line.rollout_id,
        task=shown(line.task_id.task_id if line.task_id else ""),
        index=line.index,
        repeat=line.repeat,
        attempts=line.attempts,
        category=shown(line.category),
        subtype=shown(line.l2_category),
        question=shown(line.question),
        gold=shown(line.expected_answer),
        answer=shown(line.extracted_answer),
        reward=line.reward,
        failure=shown(failure) if failure else None,
        verdict=shown(line.judge_verdict),
        turns=_count_turns(line.response.output) if line.response else 0,
        tool_calls=sum(line.agent.tool_calls.values()),
        images=len(capture.images) if capture else 0,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=timing.total,
        model_seconds=timing.model,
        finished_at=line.finished_at,
        drifts=sum(sequences.drifts.values()) if sequences else 0,
        picture=capture.images[0] if capture and capture.images else "",
        flags=_flags(line, evidence),
    )
    return RowFacts(
        offset=offset,
        length=len(content),
        environment=shown(line.environment),
        key=RolloutKey(task_hash=line.task_hash, repeat=line.repeat),
        row=row,
        outcome=_outcome(line, row, evidence),
        evidence=evidence,
        judge_usage=line.judge_usage,
    )


def _outcome(line: _Line, row: RolloutRow, evidence: EpisodeEvidence) -> Outcome:
    """As `gym_core.statistics.outcome.outcome_of` makes it of a whole record."""
    tokens = {"input": row.input_tokens, "output": row.output_tokens} if line.response else {}
    return Outcome(
        task_hash=line.task_hash,
        repeat=line.repeat,
        reward=line.reward,
        category=row.category,
        subtype=row.subtype,
        failure=row.failure,
        agrees_with_matcher=agreement_with_matcher(
            line.reward, {"matcher_equal": line.matcher_equal, "judge_model": line.judge_model}
        ),
        tool_calls=dict(Counter({shown(name): count for name, count in line.agent.tool_calls.items()})),
        tokens={**tokens, "images": row.images},
        seconds=evidence.timing.model_dump(),
        sequences=evidence.sequences,
        answer=kept_answer(line.extracted_answer),
        measures={shown(name): value for name, value in line.measures.items()},
    )


def _flags(line: _Line, evidence: EpisodeEvidence) -> list[str]:
    flags = [] if evidence.capture is None or evidence.capture.capture_complete else ["capture_incomplete"]
    if evidence.sequences and any(evidence.sequences.drifts.values()):
        flags.append("drift")
    return flags + [shown(note) for note in line.agent.notes[:8]]


def _check_numbers(*numbers: float) -> None:
    """Raises ValueError for one that no run writes: sums and charts would be of nothing else."""
    if wrong := next((number for number in numbers if not 0 <= number <= _LARGEST), None):
        raise ValueError(f"a number that is none of a rollout's: {wrong}")


def _count_turns(items: list[_Item]) -> int:
    """Runs of what the model said, each ended by what it got back."""
    turns, was_model = 0, False
    for item in items:
        is_model = item.type in _MODEL_ITEMS and item.role in ("", "assistant")
        turns += is_model and not was_model
        was_model = is_model
    return turns


def shown(value: object) -> str:
    """What a table shows of a value from a dataset or a model: its beginning."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
