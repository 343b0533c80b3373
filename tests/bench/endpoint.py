"""A model endpoint that answers at once: what is measured is whoever stands in front of it.

    python -m tests.bench.endpoint [--tool-turns 2] [--delay-s 0]

Prints its base URL on the first line. A request's body is read to its end and searched, never parsed. While the body
holds fewer than `--tool-turns` tool results the answer is a call of the bash tool. `GET /stats` counts what came.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass

import uvicorn
import uvloop

from gym_core.types.wire import JsonObject

ANSWER = "\\boxed{42}"
MODEL = "instant"
COMMAND = "python3 -c 'print(6 * 7)'"
CONTEXT_TOKENS = 131_072
_JSON = (b"content-type", b"application/json")
_SSE = (b"content-type", b"text/event-stream")


@dataclass
class Stats:
    """Unix times are in seconds, and None before the first call."""

    calls: int = 0
    other_requests: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    image_calls: int = 0
    first_call_at: float | None = None
    """Of an agent: the gym streams those, and its own look at the endpoint before a run not."""
    last_answer_at: float | None = None


Receive = Callable[[], Awaitable[JsonObject]]
Send = Callable[[JsonObject], Awaitable[None]]


class InstantModel:
    """Plain ASGI."""

    def __init__(self, *, tool_turns: int, delay_s: float) -> None:
        self._tool_turns = tool_turns
        self._delay_s = delay_s
        self._stats = Stats()
        message: JsonObject = {"role": "assistant", "content": ANSWER}
        call: JsonObject = {
            "id": "call_1",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": COMMAND, "description": "work it out"})},
        }
        self._said = {False: _answers(message, "stop"), True: _answers({"tool_calls": [call]}, "tool_calls")}

    async def __call__(self, scope: JsonObject, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"].endswith("/chat/completions"):
            await self._answer_call(receive, send)
            return
        await _whole_body(receive)
        if scope["path"] == "/v1/stats":
            await _send(send, json.dumps(asdict(self._stats)).encode())
        elif scope["path"] == "/v1/reset":
            self._stats = Stats()
            await _send(send, b"{}")
        else:
            self._stats.other_requests += 1
            models = [{"id": MODEL, "object": "model", "created": 0, "owned_by": "us", "max_model_len": CONTEXT_TOKENS}]
            await _send(send, json.dumps({"object": "list", "data": models}).encode())

    async def _answer_call(self, receive: Receive, send: Send) -> None:
        stats = self._stats
        stats.calls += 1
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        arrived_at = time.time()
        body = await _whole_body(receive)
        stats.image_calls += b"data:image/" in body
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        is_streamed = b'"stream":true' in body
        if is_streamed:
            stats.first_call_at = stats.first_call_at or arrived_at
        wants_tool = b'"tools"' in body and body.count(b'"role":"tool"') < self._tool_turns
        stats.in_flight -= 1
        stats.last_answer_at = time.time()
        await _send(send, self._said[wants_tool][is_streamed], _SSE if is_streamed else _JSON)


def _answers(message: JsonObject, finish_reason: str) -> dict[bool, bytes]:
    """Whole (False) and streamed (True)."""
    usage = {"prompt_tokens": 1200, "completion_tokens": 8, "total_tokens": 1208}
    base: JsonObject = {"id": "chatcmpl-1", "created": 1, "model": MODEL}
    whole = base | {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": None} | message,
                     "finish_reason": finish_reason}],
        "usage": usage,
    }  # fmt: skip
    delta = message | {"tool_calls": [{"index": 0} | call for call in message.get("tool_calls", [])] or None}
    events: list[JsonObject] = [
        {"choices": [{"index": 0, "delta": {key: value for key, value in delta.items() if value is not None}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]},
        {"choices": [], "usage": usage},
    ]
    lines = [json.dumps(base | {"object": "chat.completion.chunk"} | event) for event in events]
    streamed = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    return {False: json.dumps(whole).encode(), True: streamed.encode()}


async def _whole_body(receive: Receive) -> bytes:
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _send(send: Send, content: bytes, content_type: tuple[bytes, bytes] = _JSON) -> None:
    headers = [content_type, (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@dataclass(frozen=True)
class Endpoint:
    """A running endpoint, as the benchmarks see it."""

    base_url: str

    def stats(self) -> Stats:
        with urllib.request.urlopen(f"{self.base_url}/stats", timeout=10) as reply:
            return Stats(**json.load(reply))

    def reset(self) -> None:
        with urllib.request.urlopen(f"{self.base_url}/reset", timeout=10):
            pass

    @property
    def overrides(self) -> list[str]:
        """Of a `gym eval run --model-type vllm_model`."""
        return [f"++policy_base_url={self.base_url}", "++policy_api_key=none", f"++policy_model_name={MODEL}"]


@contextlib.contextmanager
def running_endpoint(*, tool_turns: int = 0, delay_s: float = 0.0) -> Iterator[Endpoint]:
    """In a process of its own, so that its CPU is nobody else's."""
    command = [sys.executable, "-m", "tests.bench.endpoint", f"--tool-turns={tool_turns}", f"--delay-s={delay_s}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Endpoint(process.stdout.readline().strip())
        finally:
            process.terminate()


async def _serve(app: InstantModel) -> None:
    config = uvicorn.Config(
        app, port=0, http="httptools", ws="none", lifespan="off", access_log=False, log_level="warning",
        backlog=4096, timeout_keep_alive=120,
    )  # fmt: skip
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn offers a flag and no event
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}/v1\n")
    sys.stdout.flush()
    await serving


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool-turns", type=int, default=0)
    parser.add_argument("--delay-s", type=float, default=0.0)
    args = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(InstantModel(tool_turns=args.tool_turns, delay_s=args.delay_s)))


if __name__ == "__main__":
    main()
