"""What stands before every request: it must name this machine as its host, and a reply may do little in a browser.

A page of another site that had its name point to 127.0.0.1 (DNS rebinding) shows its own name in `Host` and is refused.
"""

from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gym_core.http.problem import problem_response

LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Whatever the port: it may be another one at the near end of an ssh tunnel."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = "/page/"
_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class Door:
    """Plain ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", []))
                names = {name.lower() for name, _ in given}
                own = [header for header in _HEADERS if header[0] not in names]
                if b"cache-control" not in names:
                    own.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*given, *own]}
            await send(message)

        if not is_local(scope["headers"]):
            refusal = problem_response(421, "wrong_host", "this server answers to 127.0.0.1 and localhost alone")
            await refusal(scope, receive, with_headers)
        elif scope["path"] == "/":
            start = {"type": "http.response.start", "status": 307, "headers": [(b"location", PAGE.encode())]}
            await with_headers(start)
            await send({"type": "http.response.body", "body": b""})
        else:
            await self.app(scope, receive, with_headers)


def is_local(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the one `Host` header names this machine."""
    hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
    if len(hosts) != 1:
        return False
    name, colon, port = hosts[0].rpartition(":")
    if not colon or hosts[0].endswith("]"):
        return hosts[0] in LOCAL_NAMES
    return name in LOCAL_NAMES and port.isascii() and port.isdigit()
