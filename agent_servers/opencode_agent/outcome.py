"""How a run ended, told from what was seen and never from the exit code alone. Pure.

OpenCode ends with code 0 on an empty answer, a cut one or none, and with 1 although the model answered; see the table
in this folder's README. A fault of ours or the endpoint's masks the rollout; the model's own endings score it. What
comes out of the sandbox is the model's to write once it has asked for a tool, so from then on a mask rests on what was
seen from outside (docs/decisions/004-a-mask-rests-on-what-was-seen-from-outside.md).
"""

import re
from dataclasses import dataclass

from agent_servers.opencode_agent.journal import AgentMessage, Journal, RunError
from gym_core.errors import (
    AgentError,
    EpisodeError,
    FailureKind,
    InvalidTask,
    ModelUnavailable,
    Outcome,
    error_of_kind,
    kind_of_word,
    outcome_of,
)
from gym_core.sandbox.contract import ExecResult
from gym_core.types.session import CaptureSummary

_CONTEXT_FULL = re.compile(
    r"maximum (context|model) length|context_length_exceeded|reduce the length of the (messages|prompt|input)"
    r"|prompt is too long|context window|longer than the maximum",
    re.IGNORECASE,
)
"""OpenCode knows some of these wordings; vLLM's "longer than the maximum model length" it does not."""

_KEY_REFUSED = frozenset({401, 403, 404})
_MAX_REASON = 600


@dataclass(frozen=True)
class Ending:
    """What is known of a run once nothing of it is left."""

    journal: Journal
    result: ExecResult
    """Of OpenCode's process; a hint."""
    attached_images: int
    context_tokens: int
    calls: CaptureSummary | None = None
    """The policy server's view; None when it could not be asked."""
    complaint: str = ""
    """What OpenCode said on its error output, when it left no journal."""

    @property
    def has_called(self) -> bool:
        """Whether a model call began."""
        if self.calls is not None:
            return self.calls.first_call_at is not None
        return bool(self.journal.messages)

    @property
    def is_in_models_hands(self) -> bool:
        return is_in_models_hands(self.calls)


def is_in_models_hands(calls: CaptureSummary | None) -> bool:
    """Whether commands of the model may have run: then files and processes inside say what it wants them to say."""
    return calls is not None and calls.tool_calls > 0


def failure_of(ending: Ending) -> EpisodeError | None:
    """None when the model gave a final answer."""
    failure = _failure_as_told(ending)
    if failure is None or not ending.is_in_models_hands or outcome_of(failure.kind) is Outcome.SCORE_ZERO:
        return failure
    return _endpoint_failure(ending) or _undelivered(ending) or broken_inside(failure)


def broken_inside(failure: Exception) -> AgentError:
    """A failure of the run that nothing outside the sandbox bears out, after the model could have caused it."""
    return AgentError(f"after commands of the model: {failure}")


def _failure_as_told(ending: Ending) -> EpisodeError | None:
    journal = ending.journal
    if refused := next((error for error in journal.errors if _is_bad_attachment(error, ending)), None):
        return InvalidTask(f"OpenCode refused an attached image: {_reason(refused) or 'undecodable'}")
    if is_answered(journal):
        return _undelivered(ending)
    if journal.errors:
        return _of_error(journal.errors[-1], ending)
    if ending.result.timed_out:
        return _of_timeout(ending)
    return _of_last_step(journal.last, ending)


def is_answered(journal: Journal) -> bool:
    """The last assistant message finished by itself, with text and without calls that would have been answered."""
    last = journal.last
    if last is None or last.finish is None or last.tools:
        return False
    return last.finish.reason == "stop" and bool(last.text.strip())


def _is_bad_attachment(error: RunError, ending: Ending) -> bool:
    if error.tag == "BadRequest":
        return not ending.has_called
    return error.data.message.startswith(("Cannot read binary file", "File not found"))


def _undelivered(ending: Ending) -> EpisodeError | None:
    """An answer counts only when the model was shown the task's pictures."""
    calls = ending.calls
    if ending.attached_images and calls is not None and calls.calls > 0 and not calls.images:
        return EpisodeError(
            f"the model was sent none of the {ending.attached_images} images", kind=FailureKind.AGENT_START_FAILED
        )
    return None


def _of_error(error: RunError, ending: Ending) -> EpisodeError:
    reason = _reason(error)
    if error.name == "ContextOverflowError" or _CONTEXT_FULL.search(error.text):
        return AgentError(reason, kind=FailureKind.CONTEXT_LIMIT)
    if FailureKind.MODEL_UNAVAILABLE in error.text:
        return ModelUnavailable(reason)
    if endpoint := _endpoint_failure(ending):
        return endpoint
    if error.name == "ContentFilterError":
        return AgentError(reason, kind=FailureKind.NO_FINAL_ANSWER)
    if not ending.has_called:
        return EpisodeError(f"before the first model call: {reason}", kind=FailureKind.AGENT_START_FAILED)
    if error.data.message.startswith("Unexpected server error"):  # its own, for instance a full disk under its database
        return EpisodeError(f"OpenCode failed: {reason}", kind=FailureKind.AGENT_CRASHED)
    is_refusal = error.name == "APIError" and error.data.status not in _KEY_REFUSED
    if is_refusal and _has_finished_a_step(ending.journal):
        return AgentError(f"the endpoint refused the conversation: {reason}")
    return ModelUnavailable(reason)


def _has_finished_a_step(journal: Journal) -> bool:
    """Then a refused call is due to what the run put into the conversation; a refused first call is not."""
    return any(message.finish for message in journal.messages)


def _of_timeout(ending: Ending) -> EpisodeError:
    if not ending.has_called:
        return EpisodeError("no model call until the time limit", kind=FailureKind.AGENT_START_FAILED)
    return _endpoint_failure(ending) or AgentError("the time limit came first", kind=FailureKind.AGENT_TIMEOUT)


def _endpoint_failure(ending: Ending) -> EpisodeError | None:
    """The policy server's own word on who ended the last call."""
    calls = ending.calls
    if calls is None or not calls.last_failure:
        return None
    kind = kind_of_word(calls.last_failure) or FailureKind.MODEL_UNAVAILABLE
    return error_of_kind(kind, calls.last_failure_message or "the endpoint failed")


def _of_last_step(last: AgentMessage | None, ending: Ending) -> EpisodeError:
    finish = last.finish if last else None
    if last is None or finish is None:
        return _of_crash(ending)
    match finish.reason:
        case "length":
            return _of_length(last, ending)
        case "stop" if not last.tools:
            return AgentError("the model ended with an empty answer", kind=FailureKind.NO_FINAL_ANSWER)
        case "content-filter":
            return AgentError("a content filter stopped the model", kind=FailureKind.NO_FINAL_ANSWER)
        case "unknown":
            return ModelUnavailable("the endpoint's reply had no finish reason")
    if any("rejected permission" in (tool.state.error or "") for tool in last.tools if tool.state):
        return AgentError("OpenCode ended the run after a refused permission")
    return _of_crash(ending)


def _of_length(last: AgentMessage, ending: Ending) -> EpisodeError:
    """The policy server shortens a call's allowance to the room that is left, so a full context ends by length too."""
    tokens = last.finish.tokens if last.finish else None
    if tokens and (tokens.total or 0) >= ending.context_tokens:
        return AgentError("the context is full", kind=FailureKind.CONTEXT_LIMIT)
    return AgentError("the reply reached the output limit", kind=FailureKind.OUTPUT_CAP)


def _of_crash(ending: Ending) -> EpisodeError:
    result = ending.result
    how = f"signal {result.signal}" if result.signal else f"exit code {result.exit_code}"
    said = f": {ending.complaint}" if ending.complaint else ""
    if endpoint := _endpoint_failure(ending):
        return endpoint
    kind = FailureKind.AGENT_CRASHED if ending.has_called else FailureKind.AGENT_START_FAILED
    return EpisodeError(f"OpenCode ended ({how}) in the middle of the run{said}", kind=kind)


def _reason(error: RunError) -> str:
    status = f" {error.data.status}" if error.data.status else ""
    return f"{error.name or error.tag}{status}: {error.data.message}"[:_MAX_REASON]
