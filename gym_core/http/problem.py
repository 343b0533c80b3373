"""How an error crosses HTTP: one JSON shape, and the way back to the same class."""

import builtins

import msgspec
from starlette.responses import Response

from gym_core.errors import (
    FAILURE_POLICY,
    ConfigError,
    EpisodeError,
    FailureKind,
    TransportError,
    error_of_kind,
    kind_of_word,
)
from gym_core.types.wire import Wire

BAD_REQUEST = "bad_request"

# Standard errors that keep their class across the wire: the sandbox contract promises them.
_STANDARD = ("FileNotFoundError", "PermissionError", "IsADirectoryError", "NotADirectoryError", "OSError", "ValueError")


_ASK_LATER = frozenset({408, 425, 429})


class RequestRefused(TransportError):
    """The service is there and said no (an unknown token, no such route): the same request will not fare better."""


class Problem(Wire):
    kind: str
    """A `FailureKind` word, "bad_request" or "unauthorized"."""
    message: str
    type: str | None = None
    """Class name of a standard error."""


class ErrorReply(Wire):
    error: Problem


def problem_response(status: int, kind: str, message: str, *, type_name: str | None = None) -> Response:
    reply = ErrorReply(error=Problem(kind=kind, message=message, type=type_name))
    return Response(reply.model_dump_json(), status_code=status, media_type="application/json")


def response_of(error: Exception) -> Response:
    """The reply for an error that reached a route's edge."""
    if isinstance(error, EpisodeError):
        return problem_response(FAILURE_POLICY[error.kind].http_status, error.kind, str(error))
    if isinstance(error, ConfigError):
        return problem_response(422, BAD_REQUEST, str(error), type_name=ValueError.__name__)
    if isinstance(error, (OSError, ValueError)):
        name = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _STANDARD)
        return problem_response(422, BAD_REQUEST, str(error), type_name=name)
    return problem_response(500, FailureKind.INTERNAL, "internal error; the server's log has the traceback")


def error_of(status: int, body: bytes, where: str) -> Exception:
    """The error that a reply with `status` >= 400 stands for; never raises."""
    try:
        problem = msgspec.convert(msgspec.json.decode(body), type=dict[str, dict[str, object]])["error"]
    except (msgspec.MsgspecError, KeyError, RecursionError, ValueError):
        return _unnamed(status, f"{where}: HTTP {status}: {body[:200]!r}")
    kind, message, name = str(problem.get("kind")), str(problem.get("message")), problem.get("type")
    if isinstance(name, str) and name in _STANDARD:
        standard: type[Exception] = getattr(builtins, name)
        return standard(message)
    failure = kind_of_word(kind)
    if failure is not None:
        return error_of_kind(failure, message)
    if status == 422:
        return ValueError(f"{where}: {message}")
    return _unnamed(status, f"{where}: HTTP {status} {kind}: {message}")


def _unnamed(status: int, message: str) -> TransportError:
    is_final = 400 <= status < 500 and status not in _ASK_LATER
    return RequestRefused(message) if is_final else TransportError(message)
