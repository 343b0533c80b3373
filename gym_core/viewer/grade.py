"""How a rollout was graded, for a reader: the columns that every grader has by name, the others as they are."""

import json

from gym_core.types.rollout import RolloutRecord
from gym_core.types.wire import JsonObject
from gym_core.viewer.texts import Texts
from gym_core.viewer.types import Clip, Column, Grade

_NAMED_DETAILS = frozenset({"extracted_answer", "judge_verdict", "judge_reason", "judge_raw_reply", "judge_model"})
_NAMED_DATA = frozenset({"question", "expected_answer", "options"})
_MATCHER = "matcher"
_MAX_COLUMNS = 200
_MAX_OPTIONS = 50


def grade_of(record: RolloutRecord, texts: Texts) -> Grade:
    verification, details, data = record.verification, record.verification.details, record.task.task_data
    options = data.get("options")
    failure = verification.failure
    columns = [
        *((name, value) for name, value in details.items() if name not in _NAMED_DETAILS),
        *((name, value) for name, value in data.items() if name not in _NAMED_DATA),
    ]
    return Grade(
        reward=verification.reward,
        components=verification.reward_components,
        shaping=verification.shaping,
        failure=failure.kind.value if failure else None,
        failure_reason=failure.reason if failure else "",
        failure_stage=failure.stage if failure else "",
        gold=_clip(data.get("expected_answer"), texts),
        extracted=_clip(details.get("extracted_answer"), texts),
        options=[texts.clip(_text(option)) for option in options[:_MAX_OPTIONS]] if isinstance(options, list) else [],
        verdict=_text(details.get("judge_verdict"))[:100],
        reason=_clip(details.get("judge_reason"), texts),
        raw_reply=_clip(details.get("judge_raw_reply"), texts),
        judge=_judge(details),
        columns=[
            Column(name=name[:200], value=texts.clip(_text(value)))
            for name, value in columns[:_MAX_COLUMNS]
            if value is not None and value != []
        ],
    )


def _judge(details: JsonObject) -> str:
    if not details.get("judge_verdict"):
        return ""
    return _text(details.get("judge_model"))[:200] or _MATCHER


def _clip(value: object, texts: Texts) -> Clip | None:
    return None if value is None else texts.clip(_text(value))


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
