"""How a rollout ended, in the words that environments know, and what their words mean here. Pure."""

from gym_core.errors import EpisodeError, FailureKind, error_of_kind, kind_of_word
from gym_core.types.responses import ResponsesReply

FINISHED = "finished"
_REASON_OF_ENDING = {
    "max_turns": "max_turns_exceeded",
    "tool_budget": "tool_budget_exceeded",
    "image_budget": "tool_budget_exceeded",
}
"""Endings of `tool_agent` that one failure kind does not tell apart; environments know of no budget of images."""
_REASON_OF_KIND = {
    FailureKind.OUTPUT_CAP: "output_exceeded",
    FailureKind.CONTEXT_LIMIT: "context_exceeded",
    FailureKind.NO_FINAL_ANSWER: FINISHED,
    FailureKind.AGENT_TIMEOUT: "harness_timeout",
}
_KIND_OF = {
    "judge_error": FailureKind.JUDGE_FAILED,
    "sandbox_error": FailureKind.SANDBOX_ERROR,
    "model_error": FailureKind.MODEL_UNAVAILABLE,
}


def reason_of(response: ResponsesReply) -> str:
    """The termination reason of what an agent handed in."""
    if response.error is None:
        return FINISHED
    ending = (response.metadata or {}).get("ending", "")
    kind = kind_of_word(response.error.code)
    # Without a word of the harness's own, no final answer is one without text.
    return _REASON_OF_ENDING.get(ending) or _REASON_OF_KIND.get(kind or FailureKind.INTERNAL, "harness_error")


def reason_word(error: BaseException) -> str | None:
    """The word of a `RolloutFailure`, by whichever package made the class; None for any other error."""
    word = getattr(error, "termination_reason", None)
    return word if isinstance(word, str) else None


def as_episode_error(error: Exception, hook: str) -> EpisodeError:
    """What a hook raised, as a failure of the environment's own: it masks, whatever it was."""
    if isinstance(error, EpisodeError):
        return error
    word = reason_word(error)
    kind = _KIND_OF.get(word or "", FailureKind.VERIFIER_ERROR)
    if isinstance(error, TimeoutError) and not str(error):
        return error_of_kind(kind, f"{hook}: no result in time")
    name = word or type(error).__name__
    return error_of_kind(kind, f"{hook}: {name}: {error}"[:1000])
