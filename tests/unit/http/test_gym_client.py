"""The trainer's client before a gym that is not the right one, or goes away again and again."""

import logging
from collections.abc import AsyncGenerator

import pytest
from fastapi import FastAPI

from gym_core import client as client_module
from gym_core.client import GymClient
from gym_core.errors import TransportError
from gym_core.http.app import make_app
from gym_core.http.auth import static_tokens
from gym_core.http.client import HttpPool, ServiceClient
from gym_core.http.problem import RequestRefused
from gym_core.types.trainer import RolloutLine, RolloutsRequest
from tests.fakes.serving import serving

ASKED = RolloutsRequest(rows=[{"responses_create_params": {"input": "a"}}])


class BreakingHead(ServiceClient):
    """Each stream brings the lines that are there, and breaks."""

    def __init__(self, *lines: int) -> None:
        super().__init__(HttpPool(), "http://unused", "token")
        self.lines = list(lines)
        """How many there are by the first stream, the second, and so on."""
        self.streams = 0

    async def stream(
        self, method: str, path: str, *, body: bytes = b"", timeout_s: float = 0
    ) -> AsyncGenerator[bytes, None]:
        n_lines = self.lines[min(self.streams, len(self.lines) - 1)]
        self.streams += 1
        for repeat in range(n_lines):
            line = RolloutLine(task_index=0, repeat=repeat, advantage_group="g", end_reason="completed", reward=1.0)
            yield line.to_json()
        raise TransportError("the line is dead")


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RECONNECT_PAUSES_S", (0.0, 0.0))


@pytest.mark.parametrize(("lines", "streams"), [((1,), 3), ((1, 2, 2, 3), 6), ((0,), 3)])
async def test_only_new_lines_are_a_reason_to_go_on_trying(
    lines: tuple[int, ...], streams: int, caplog: pytest.LogCaptureFixture
) -> None:
    head = BreakingHead(*lines)
    found = []

    async def read() -> None:
        async for line in GymClient.over(head).rollouts(ASKED):
            found.append(line)

    with caplog.at_level(logging.WARNING), pytest.raises(TransportError, match="the line is dead"):
        await read()
    assert (head.streams, len(found)) == (streams, max(lines))
    assert "the line is dead" in caplog.messages[0], "a log without fields names the reason, too"


def _other_service() -> FastAPI:
    return make_app("other", static_tokens("right"))


@pytest.mark.parametrize("token", ["wrong", "right"])
async def test_a_wrong_token_or_address_is_told_at_once(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right one it is a server without the route."""
    monkeypatch.setattr(client_module, "RECONNECT_PAUSES_S", (1000.0,))
    async with serving(_other_service()) as url, GymClient(url, token) as gym:
        with pytest.raises(RequestRefused, match="401" if token == "wrong" else "404"):
            await anext(aiter(gym.rollouts(ASKED)))


@pytest.mark.parametrize("url", ["127.0.0.1:11000", "localhost", "", "ftp://x", "http://"])
def test_what_is_no_url_is_told_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="is no URL"):
        GymClient(url, "token")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
async def test_a_row_with_a_number_that_json_lacks_is_not_sent_as_null(number: float) -> None:
    row = {"responses_create_params": {"input": "a"}, "answer": [{"is": number}]}
    head = BreakingHead(0)
    with pytest.raises(ValueError, match="no number in JSON"):
        await anext(aiter(GymClient.over(head).rollouts(RolloutsRequest(rows=[row]))))
    with pytest.raises(ValueError, match="no number in JSON"):
        await GymClient.over(head).run("echo", row)
    assert head.streams == 0
