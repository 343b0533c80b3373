"""What a row says of a judge's verdict, column by column."""

from gym_core.judging.contract import Verdict
from gym_core.types.wire import JsonObject

NOT_JUDGED: JsonObject = {
    "judge_verdict": None,
    "judge_reason": None,
    "judge_confidence": None,
    "judge_raw_reply": None,
    "judge_model": None,
    "judge_prompt_sha256": None,
    "judge_attempts": 0,
    "judge_usage": None,
}
"""The same columns where no judge was asked."""


def verdict_columns(verdict: Verdict) -> JsonObject:
    return {
        "judge_verdict": verdict.label.value,
        "judge_reason": verdict.reason,
        "judge_confidence": verdict.confidence,
        "judge_raw_reply": verdict.raw_reply,
        "judge_model": verdict.model,
        "judge_prompt_sha256": verdict.prompt_sha256,
        "judge_attempts": verdict.attempts,
        "judge_usage": verdict.usage.model_dump() if verdict.usage else None,
    }
