"""When a request's caller goes away: bare ASGI, for work that should end then."""

from starlette.types import Receive


async def caller_gone(receive: Receive) -> None:
    """Returns when the caller has gone. To be used once the body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass
