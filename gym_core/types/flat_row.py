"""The flat NeMo-style row: the one place that knows its underscore keys.

Trainers and dataset authors speak flat rows: `responses_create_params` with the environment's own fields beside it, and
for a finished rollout also `response`, `reward` and the mask. Ours are typed objects; this module turns one into the
other and back without loss. What the flat row has no word for travels under `_gym_*` keys. Keys that begin with `_ng_`
or `_gym_` in a task row are bookkeeping of whoever wrote it and no part of the task.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from gym_core.errors import FAILURE_POLICY
from gym_core.types.ids import EpisodeId, SafeId
from gym_core.types.responses import ResponsesReply
from gym_core.types.rollout import EpisodeEvidence, EpisodeTiming, RolloutKey, RolloutRecord
from gym_core.types.sample import SequenceSummary
from gym_core.types.session import AgentReport, CaptureSummary, SandboxEnforcement
from gym_core.types.task import Task
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject, Wire

RESERVED_COLUMNS = frozenset(
    {
        "task_id",
        "task_input",
        "responses_create_params",
        "response",
        "resources_session_id",
        "reward",
        "mask_sample",
        "failure_kind",
        "failure_reason",
        "reward_components",
        "reward_shaping",
    }
)
"""Names that neither a task's fields nor a verification's details may take."""

_BOOKKEEPING = ("_ng_", "_gym_")
_RESULT_COLUMNS = RESERVED_COLUMNS - {"task_id", "responses_create_params"}

_WireT = TypeVar("_WireT", bound=Wire)


class VerifyRequest(Wire):
    """What a resources server is asked to grade."""

    task: Task
    response: ResponsesReply
    resources_session_id: SafeId


class _TaskInput(Wire):
    """The inner object of NeMo's materialised rows."""

    responses_create_params: JsonObject
    task_data: JsonObject = {}


def check_columns(task_data: Mapping[str, object], details: Mapping[str, object]) -> None:
    """Raises ValueError when the two cannot lie side by side in one flat row, naming every clash."""
    taken = [name for name in (*task_data, *details) if name in RESERVED_COLUMNS or name.startswith(_BOOKKEEPING)]
    if taken:
        raise ValueError(f"reserved column names in task data or details: {sorted(set(taken))}")
    if both := sorted(set(task_data) & set(details)):
        raise ValueError(f"verification details would overwrite the task's own fields: {both}")


def task_from_flat(row: object, *, taskset: str, index: int) -> Task:
    """The task of a flat row, or of NeMo's materialised one (`task_id`, `task_input`). Raises ValueError.

    `taskset` and `index` (position in the dataset) name a task that brings no `task_id`.
    """
    if not isinstance(row, dict):
        raise ValueError(f"a task row is a JSON object, not {type(row).__name__}")
    task_id = row.get("task_id", {"taskset": taskset, "task_id": str(index)})
    nested = row.get("task_input")
    if nested is None:
        body = row.get("responses_create_params")
        task_data = _own_fields(row)
        taken = (RESERVED_COLUMNS - {"task_id", "responses_create_params", "task_input"}) & row.keys()
        if taken:
            raise ValueError(f"a task row may not carry {sorted(taken)}: is this a file of results?")
    else:
        task_input = _parsed(_TaskInput, nested)
        body, task_data = task_input.responses_create_params, task_input.task_data
    if body is None:
        raise ValueError("a task row needs `responses_create_params`")
    check_columns(task_data, {})
    return _parsed(Task, {"id": task_id, "responses_create_params": body, "task_data": task_data})


def flat_from_task(task: Task) -> JsonObject:
    """Inverse of `task_from_flat`."""
    check_columns(task.task_data, {})
    return {"task_id": task.id.model_dump(), "responses_create_params": _dumped(task.responses_create_params)} | (
        task.task_data
    )


def verify_request_to_flat(request: VerifyRequest) -> JsonObject:
    return {
        **flat_from_task(request.task),
        "response": _dumped(request.response),
        "resources_session_id": request.resources_session_id,
    }


def verify_request_from_flat(flat: JsonObject) -> VerifyRequest:
    """Raises ValueError. A request without a `task_id`, as NeMo's clients send it, is of the unnamed task 0."""
    task_fields = {key: value for key, value in flat.items() if key not in ("response", "resources_session_id")}
    return _parsed(
        VerifyRequest,
        {
            "task": task_from_flat(task_fields, taskset="", index=0),
            "response": flat.get("response"),
            "resources_session_id": flat.get("resources_session_id"),
        },
    )


def verification_to_flat(verification: Verification) -> JsonObject:
    """Reward, mask and failure under NeMo's names, the details as columns beside them.

    `failure_kind` is the word promised to users (one for every judge failure); the exact failure is `_gym_failure`.
    A masked row's reward is null, never a number that could slip into a baseline. Raises ValueError as `check_columns`.
    """
    check_columns({}, verification.details)
    failure = verification.failure
    return {
        "reward": verification.reward,
        "mask_sample": verification.is_masked,
        "failure_kind": (FAILURE_POLICY[failure.kind].row_kind or failure.kind).value if failure else None,
        "failure_reason": failure.reason if failure else None,
        "reward_components": verification.reward_components,
        "reward_shaping": verification.shaping,
        **verification.details,
        "_gym_failure": failure.model_dump(mode="json") if failure else None,
        "_gym_details": list(verification.details),
        "_gym_measures": verification.measures,
    }


def verification_from_flat(flat: JsonObject) -> Verification:
    """Inverse of `verification_to_flat`; other columns of the row are ignored. Raises ValueError.

    A resources server that is not ours sends no `_gym_*` keys: its failure is taken from the row, a masked placeholder
    reward becomes null, and its own columns are left out.
    """
    masked = flat.get("mask_sample", False)
    failure = flat.get("_gym_failure")
    if failure is None and flat.get("failure_kind") is not None:
        failure = {"kind": flat["failure_kind"], "reason": str(flat.get("failure_reason") or "")[:2000]}
    return _parsed(
        Verification,
        {
            "reward": None if masked else flat.get("reward"),
            "reward_components": flat.get("reward_components") or {},
            "shaping": {} if masked else flat.get("reward_shaping") or {},
            "failure": failure,
            "details": {name: flat[name] for name in flat.get("_gym_details", [])},
            "measures": flat.get("_gym_measures", {}),
        },
    )


def flat_from_record(record: RolloutRecord) -> JsonObject:
    """The line of the output file. Raises ValueError as `check_columns`."""
    check_columns(record.task.task_data, record.verification.details)
    evidence = record.evidence
    return {
        "_ng_task_index": record.task_index,
        "_ng_rollout_index": record.key.repeat,
        "_ng_attempt_index": evidence.episode_id.attempt,
        "_ng_rollout_id": evidence.episode_id.rollout_id,
        **flat_from_task(record.task),
        "response": _dumped(evidence.response) if evidence.response else None,
        **verification_to_flat(record.verification),
        "_gym_schema_version": record.schema_version,
        "_gym_task_hash": record.key.task_hash,
        "_gym_run_hash": record.run_hash,
        "_gym_environment": record.environment,
        "_gym_attempts": record.attempts,
        "_gym_finished_at": record.finished_at,
        "_gym_timing": _dumped(evidence.timing),
        "_gym_agent": _dumped(evidence.agent),
        "_gym_capture": _dumped(evidence.capture) if evidence.capture else None,
        "_gym_sequences": _dumped(evidence.sequences) if evidence.sequences else None,
        "_gym_sandbox": _dumped(evidence.sandbox) if evidence.sandbox else None,
    }


def record_from_flat(flat: JsonObject) -> RolloutRecord:
    """Inverse of `flat_from_record`. Raises ValueError."""
    try:
        details = set(flat["_gym_details"])
        task_fields = {k: v for k, v in flat.items() if k not in details and k not in _RESULT_COLUMNS}
        return RolloutRecord(
            schema_version=flat["_gym_schema_version"],
            key=RolloutKey(task_hash=flat["_gym_task_hash"], repeat=flat["_ng_rollout_index"]),
            run_hash=flat["_gym_run_hash"],
            task_index=flat["_ng_task_index"],
            environment=flat["_gym_environment"],
            task=task_from_flat(task_fields, taskset="", index=flat["_ng_task_index"]),
            evidence=_evidence_from_flat(flat),
            verification=verification_from_flat(flat),
            attempts=flat["_gym_attempts"],
            finished_at=flat["_gym_finished_at"],
        )
    except KeyError as error:
        raise ValueError(f"a rollout's row lacks {error}") from error


def _evidence_from_flat(flat: JsonObject) -> EpisodeEvidence:
    response, capture, sandbox = flat["response"], flat["_gym_capture"], flat["_gym_sandbox"]
    sequences = flat.get("_gym_sequences")  # rows of before 0.2 have none
    return EpisodeEvidence(
        episode_id=EpisodeId(rollout_id=flat["_ng_rollout_id"], attempt=flat["_ng_attempt_index"]),
        response=_parsed(ResponsesReply, response) if response else None,
        agent=_parsed(AgentReport, flat["_gym_agent"]),
        capture=_parsed(CaptureSummary, capture) if capture else None,
        sequences=_parsed(SequenceSummary, sequences) if sequences else None,
        sandbox=_parsed(SandboxEnforcement, sandbox) if sandbox else None,
        timing=_parsed(EpisodeTiming, flat["_gym_timing"]),
    )


def _own_fields(row: JsonObject) -> JsonObject:
    return {k: v for k, v in row.items() if k not in RESERVED_COLUMNS and not k.startswith(_BOOKKEEPING)}


def _dumped(wire: Wire) -> JsonObject:
    """Absent fields left out, as NeMo's rows have it; JSON inside fields that we only carry is untouched."""
    return wire.model_dump(mode="json", exclude_none=True)


def _parsed(wire: type[_WireT], value: object) -> _WireT:
    """As pydantic does it, with a message that names each field and repeats no content (which may be a picture)."""
    try:
        return wire.model_validate(value)
    except ValidationError as error:
        places = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
        raise ValueError(f"{wire.__name__}: " + "; ".join(places[:8])) from error
