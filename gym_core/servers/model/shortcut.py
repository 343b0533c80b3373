"""One route of an app without what the others need: routing, error pages and limits cost a call a tenth of its time."""

from starlette.types import ASGIApp, Receive, Scope, Send


class Shortcut:
    """Plain ASGI, outermost: a POST to `path` goes to `target`, which checks its caller, bounds its body and answers
    its errors by itself."""

    def __init__(self, app: ASGIApp, path: str, target: ASGIApp) -> None:
        self.app = app
        self._path = path
        self._target = target

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] == "http" and scope["path"] == self._path and scope["method"] == "POST"
        await (self._target if is_ours else self.app)(scope, receive, send)
