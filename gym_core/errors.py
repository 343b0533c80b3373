"""Failure kinds, the one table that says what becomes of each, and the errors that carry them.

EpisodeError                    any failure of one episode; `.kind` names it
 +- SandboxError                a sandbox could not be made, used or reached
 |   +- SandboxUnavailable      none could be made
 |   +- SandboxLost             it was there and is gone
 +- TransportError              a service did not answer as agreed
 +- SessionError                a session is unknown, closed or expired
 +- ModelUnavailable            the policy's endpoint failed, not the model
 +- JudgeError                  the judge failed or replied nonsense
 +- AgentError                  the agent's run ended badly by the model's doing
ConfigError                     the user's configuration; lists every mistake at once
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Low-cardinality words, NeMo Gym's where it has one, so that trainers can group on them."""

    AGENT_TIMEOUT = "agent_timeout"
    OUTPUT_CAP = "output_cap"
    CONTEXT_LIMIT = "context_limit"
    NO_FINAL_ANSWER = "no_final_answer"
    AGENT_RUN_ERROR = "agent_run_error"
    JUDGE_FAILED = "judge_failed"
    JUDGE_UNPARSEABLE = "judge_unparseable"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_OOM_KILLED = "provider_oom_killed"
    SANDBOX_ERROR = "sandbox_error"
    SANDBOX_LOST = "sandbox_lost"
    TRANSPORT_UNREACHABLE = "transport_unreachable"
    TRANSPORT_PEER_DROP = "transport_peer_drop"
    TRANSPORT_TIMEOUT = "transport_timeout"
    SESSION_LOST = "session_lost"
    SESSION_EXPIRED = "session_expired"
    SESSION_CONFLICT = "session_conflict"
    MODEL_UNAVAILABLE = "model_unavailable"
    AGENT_START_FAILED = "agent_start_failed"
    AGENT_CRASHED = "agent_crashed"
    PERSISTENCE_FAILED = "persistence_failed"
    REPLAY_DIVERGED = "replay_diverged"
    """In a replay of recorded calls: the harness asked what was never recorded."""
    VERIFIER_ERROR = "verifier_error"
    INVALID_TASK = "invalid_task"
    INTERNAL = "internal"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"


class Outcome(StrEnum):
    SCORE_ZERO = "score_zero"
    """The model's doing: reward 0, the judge is not asked."""
    MASK = "mask"
    """Not a measurement: reward null, left out of every mean, counted."""
    NOT_WRITTEN = "not_written"
    """The rollout is still to do; a resume runs it."""


@dataclass(frozen=True)
class FailurePolicy:
    outcome: Outcome
    retries_episode: bool
    """Whether a new episode is worth trying (bounded by the run's budget)."""
    http_status: int
    row_kind: FailureKind | None = None
    """The word that reaches the row, where it differs: users are promised one word for every judge failure."""


_MODEL = FailurePolicy(Outcome.SCORE_ZERO, retries_episode=False, http_status=422)
_OURS = FailurePolicy(Outcome.MASK, retries_episode=True, http_status=503)
_BUG = FailurePolicy(Outcome.MASK, retries_episode=False, http_status=500)
_JUDGE = FailurePolicy(Outcome.MASK, retries_episode=False, http_status=502, row_kind=FailureKind.JUDGE_FAILED)
_STOPPED = FailurePolicy(Outcome.NOT_WRITTEN, retries_episode=False, http_status=503)
_CONFLICT = FailurePolicy(Outcome.MASK, retries_episode=True, http_status=409)
_GONE = FailurePolicy(Outcome.MASK, retries_episode=True, http_status=404)

FAILURE_POLICY: dict[FailureKind, FailurePolicy] = {
    FailureKind.AGENT_TIMEOUT: _MODEL,
    FailureKind.OUTPUT_CAP: _MODEL,
    FailureKind.CONTEXT_LIMIT: _MODEL,
    FailureKind.NO_FINAL_ANSWER: _MODEL,
    FailureKind.AGENT_RUN_ERROR: _MODEL,
    FailureKind.JUDGE_FAILED: _JUDGE,
    FailureKind.JUDGE_UNPARSEABLE: _JUDGE,
    FailureKind.PROVIDER_UNAVAILABLE: _OURS,
    FailureKind.PROVIDER_OOM_KILLED: _OURS,
    FailureKind.SANDBOX_ERROR: _OURS,
    FailureKind.SANDBOX_LOST: _GONE,
    FailureKind.TRANSPORT_UNREACHABLE: _OURS,
    FailureKind.TRANSPORT_PEER_DROP: _OURS,
    FailureKind.TRANSPORT_TIMEOUT: FailurePolicy(Outcome.MASK, retries_episode=True, http_status=504),
    FailureKind.SESSION_LOST: _GONE,
    FailureKind.SESSION_EXPIRED: _GONE,
    FailureKind.SESSION_CONFLICT: _CONFLICT,
    FailureKind.MODEL_UNAVAILABLE: _OURS,
    FailureKind.AGENT_START_FAILED: _OURS,
    FailureKind.AGENT_CRASHED: _OURS,
    FailureKind.PERSISTENCE_FAILED: FailurePolicy(Outcome.MASK, retries_episode=True, http_status=507),
    FailureKind.REPLAY_DIVERGED: FailurePolicy(Outcome.MASK, retries_episode=False, http_status=422),
    FailureKind.VERIFIER_ERROR: _BUG,
    FailureKind.INVALID_TASK: FailurePolicy(Outcome.MASK, retries_episode=False, http_status=422),
    FailureKind.INTERNAL: _BUG,
    FailureKind.CANCELLED: _STOPPED,
    FailureKind.SHUTDOWN: _STOPPED,
}


def kind_of_word(word: str | None) -> FailureKind | None:
    """The kind that a word from another process names; None for no word, or one that is not ours."""
    return FailureKind(word) if word is not None and word in FailureKind.__members__.values() else None


def outcome_of(kind: FailureKind) -> Outcome:
    return FAILURE_POLICY[kind].outcome


class EpisodeError(Exception):
    """A failure of one episode, never of the run. Subclasses fix the kind; pass one to be more exact."""

    kind: FailureKind = FailureKind.INTERNAL

    def __init__(self, message: str, *, kind: FailureKind | None = None) -> None:
        super().__init__(message)
        if kind is not None:
            self.kind = kind


class SandboxError(EpisodeError):
    kind = FailureKind.SANDBOX_ERROR


class SandboxUnavailable(SandboxError):
    kind = FailureKind.PROVIDER_UNAVAILABLE


class SandboxLost(SandboxError):
    kind = FailureKind.SANDBOX_LOST


class TransportError(EpisodeError):
    kind = FailureKind.TRANSPORT_UNREACHABLE


class SessionError(EpisodeError):
    kind = FailureKind.SESSION_LOST


class ModelUnavailable(EpisodeError):
    kind = FailureKind.MODEL_UNAVAILABLE


class JudgeError(EpisodeError):
    kind = FailureKind.JUDGE_FAILED


class AgentError(EpisodeError):
    kind = FailureKind.AGENT_RUN_ERROR


class InvalidTask(EpisodeError):
    kind = FailureKind.INVALID_TASK


_CLASS_OF_KIND: dict[FailureKind, type[EpisodeError]] = {
    FailureKind.PROVIDER_UNAVAILABLE: SandboxUnavailable,
    FailureKind.PROVIDER_OOM_KILLED: SandboxError,
    FailureKind.SANDBOX_ERROR: SandboxError,
    FailureKind.SANDBOX_LOST: SandboxLost,
    FailureKind.TRANSPORT_UNREACHABLE: TransportError,
    FailureKind.TRANSPORT_PEER_DROP: TransportError,
    FailureKind.TRANSPORT_TIMEOUT: TransportError,
    FailureKind.SESSION_LOST: SessionError,
    FailureKind.SESSION_EXPIRED: SessionError,
    FailureKind.SESSION_CONFLICT: SessionError,
    FailureKind.MODEL_UNAVAILABLE: ModelUnavailable,
    FailureKind.JUDGE_FAILED: JudgeError,
    FailureKind.JUDGE_UNPARSEABLE: JudgeError,
    FailureKind.INVALID_TASK: InvalidTask,
}


def error_of_kind(kind: FailureKind, message: str) -> EpisodeError:
    """The error that a kind stands for: how a failure that crossed HTTP comes back as the same class."""
    return _CLASS_OF_KIND.get(kind, EpisodeError)(message, kind=kind)


@contextmanager
def boundary(error: type[EpisodeError], what: str) -> Iterator[None]:
    """Plain errors inside leave as `error`, naming what was tried, with the cause; typed ones and cancellation pass.

    Use it with a plain `with`, around awaits too.
    """
    try:
        yield
    except EpisodeError:
        raise
    except Exception as cause:
        raise error(f"{what}: {type(cause).__name__}: {cause}") from cause


class ConfigError(Exception):
    """The user's configuration or command line. `problems` holds every mistake, each with its dotted path."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))
