"""Who is calling: bearer tokens, the roles they stand for, and the check before any route."""

import hmac
import json
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = frozenset({"/health", "/livez", "/readyz"})


class Role(StrEnum):
    RUN = "run"
    """A service of this gym, or its launcher."""
    USER = "user"
    """A person or a trainer off-host (`GYM_API_KEY`)."""
    SESSION = "session"
    """Code in one sandbox: the policy's calls and nothing else."""


@dataclass(frozen=True)
class Principal:
    role: Role
    session_id: str | None = None


@dataclass(frozen=True)
class Knock:
    """What a request shows at the door."""

    token: str
    path: str
    host: str
    """The address it comes from; "" when the server does not know."""


Authenticate = Callable[[Knock], Principal | None]
"""Who it is, or None: an unknown token, or one that is not good for this path or from there."""


def new_token() -> str:
    """256 random bits, URL-safe."""
    return secrets.token_urlsafe(32)


def same_token(a: str, b: str) -> bool:
    """Constant-time comparison."""
    return hmac.compare_digest(a.encode(), b.encode())


def static_tokens(run_token: str, user_token: str | None = None) -> Authenticate:
    """The check of servers that only services, or services and users, call."""

    def authenticate(knock: Knock) -> Principal | None:
        if same_token(knock.token, run_token):
            return Principal(Role.RUN)
        if user_token and same_token(knock.token, user_token):
            return Principal(Role.USER)
        return None

    return authenticate


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip().decode("latin-1")
    return None


class BearerAuth:
    """Plain ASGI: 401 without a known token, else the caller is in `scope["state"]["principal"]`.

    `own_paths` are prefixes whose routes check a narrower token of their own. Costs one dictionary scan a request.
    """

    def __init__(self, app: ASGIApp, authenticate: Authenticate, own_paths: tuple[str, ...] = ()) -> None:
        self.app = app
        self._authenticate = authenticate
        self._own_paths = own_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or scope["path"].startswith(self._own_paths or "\0"):
            await self.app(scope, receive, send)
            return
        token = bearer_token(scope["headers"])
        host = scope["client"][0] if scope.get("client") else ""
        principal = self._authenticate(Knock(token, scope["path"], host)) if token else None
        if principal is None:
            await _refuse(send)
            return
        scope.setdefault("state", {})["principal"] = principal
        await self.app(scope, receive, send)


async def _refuse(send: Send) -> None:
    body = json.dumps(
        {"error": {"kind": "unauthorized", "message": "this route needs a bearer token that is good for it"}}
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 401, "headers": [*headers, (b"www-authenticate", b"Bearer")]})
    await send({"type": "http.response.body", "body": body})
