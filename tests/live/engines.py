"""Real engines for tests: the tiny server of examples/tiny_vlm, and vLLM where it is installed.

folder = build_model(tmp_path / "model")                        # a tiny model with random weights, in seconds
async with tiny_engine(folder, "--split-seed", "1") as engine:  # ready: it has answered a completion
    engine.base_url                                             # ".../v1", for an endpoint's config
async with vllm_engine(folder) as engine: ...                   # the same weights behind the real thing
with serving_tiny(folder) as engine: ...                        # for fixtures that outlive a test's event loop

Each is a process group of its own and is gone when the block is left. Logs lie beside the model.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from gym_core.types.wire import JsonObject

ROOT = Path(__file__).resolve().parents[2]
VLLM_VENV = ROOT / ".venv-vllm"
VLLM_MISSING = VLLM_VENV / "missing.txt"
"""Why there is no vLLM, in a line; written by install_vllm.py."""
VLLM_READY = VLLM_VENV / "installed.txt"
SEED = 1
MODEL_NAME = "policy"
BUILD_TIMEOUT_S = 120.0
TINY_START_TIMEOUT_S = 120.0
VLLM_START_TIMEOUT_S = 600.0
"""45 s on an idle machine; minutes where others work."""
STOP_TIMEOUT_S = 15.0
ANSWER_TIMEOUT_S = 120.0
CONTEXT_TOKENS = 32768

needs_tiny_vlm = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("transformers") is None, reason="no torch here: run `make tiny-vlm`"
)


def _reason_without_vllm() -> str:
    return VLLM_MISSING.read_text(encoding="utf-8") if VLLM_MISSING.exists() else "no vLLM here: run `make vllm`"


needs_vllm = pytest.mark.skipif(not VLLM_READY.exists(), reason=_reason_without_vllm())


@dataclass(frozen=True)
class Engine:
    """A running one."""

    url: str
    """Without `/v1`."""
    folder: Path
    """Its model's."""
    pid: int
    start_s: float
    """From the start of the process to the first answer."""

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=ANSWER_TIMEOUT_S, trust_env=False)

    async def post(self, path: str, body: JsonObject) -> JsonObject:
        """The answer's JSON, {} for none. Fails the test for any status but 200."""
        async with self.client() as client:
            answer = await client.post(path, json=body)
        assert answer.status_code == 200, answer.text[:2000]
        found: JsonObject = json.loads(answer.content) if answer.content else {}
        return found

    async def refusal(self, path: str, body: JsonObject) -> tuple[int, str]:
        """Status and message of an answer that is an error."""
        async with self.client() as client:
            answer = await client.post(path, json=body)
        return answer.status_code, str(answer.json()["error"]["message"])

    async def chat(self, messages: Sequence[JsonObject], **more: object) -> JsonObject:
        """A whole chat completion with ids and log-probabilities."""
        return await self.post("/v1/chat/completions", chat_body(messages, **more))

    async def stream(self, path: str, body: JsonObject) -> list[JsonObject]:
        """A stream's chunks, all of them, in order."""
        chunks: list[JsonObject] = []
        async with self.client() as client, client.stream("POST", path, json=body | {"stream": True}) as answer:
            assert answer.status_code == 200, (await answer.aread())[:2000]
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    chunks.append(json.loads(line.removeprefix("data: ")))
        return chunks


def chat_body(messages: Sequence[JsonObject], **more: object) -> JsonObject:
    """With a seed, because random weights that are left to chance write a picture's placeholder now and then, which no
    plain forward pass takes."""
    wanted = {"logprobs": True, "return_token_ids": True, "max_tokens": 8, "seed": SEED}
    return {"model": MODEL_NAME, "messages": list(messages), **wanted, **more}


def build_model(folder: Path, *flags: str) -> Path:
    """A model's folder, built by the command that users type. Flags: those of `examples.tiny_vlm.build`."""
    argv = [sys.executable, "-m", "examples.tiny_vlm.build", str(folder), *flags]
    done = subprocess.run(
        argv, cwd=ROOT, env=_environment(), capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@contextmanager
def serving_tiny(folder: Path, *flags: str) -> Iterator[Engine]:
    """Flags: those of `examples.tiny_vlm.server`; a script's module is importable from the repository's root."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, number = listener.getsockname()[1], listener.fileno()
        argv = [sys.executable, "-m", "examples.tiny_vlm.server", str(folder), "--fd", str(number), *flags]
        launch = _Launch(folder, port, TINY_START_TIMEOUT_S)
        process = launch.start(argv, hand_over=(number,))
    yield from launch.running(process)


@contextmanager
def serving_vllm(folder: Path, *flags: str) -> Iterator[Engine]:
    """Flags: more of `vllm serve`. Token-in token-out, tool calls and weight reloading are on."""
    launch = _Launch(folder, _free_port(), VLLM_START_TIMEOUT_S)
    argv = [str(VLLM_VENV / "bin/vllm"), "serve", str(folder), *_vllm_flags(launch.port)]
    yield from launch.running(launch.start([*argv, "--enforce-eager", "--dtype", "float32", *flags]))


@contextmanager
def serving_vllm_prompts(folder: Path, *flags: str) -> Iterator[Engine]:
    """`vllm launch render`: only the routes that make prompts, without weights and sooner."""
    launch = _Launch(folder, _free_port(), VLLM_START_TIMEOUT_S, probe="/v1/chat/completions/render")
    argv = [str(VLLM_VENV / "bin/vllm"), "launch", "render", str(folder), *_vllm_flags(launch.port), *flags]
    yield from launch.running(launch.start(argv))


@asynccontextmanager
async def tiny_engine(folder: Path, *flags: str) -> AsyncIterator[Engine]:
    async with _in_thread(serving_tiny(folder, *flags)) as engine:
        yield engine


@asynccontextmanager
async def vllm_engine(folder: Path, *flags: str) -> AsyncIterator[Engine]:
    async with _in_thread(serving_vllm(folder, *flags)) as engine:
        yield engine


@asynccontextmanager
async def _in_thread(serving: AbstractContextManager[Engine]) -> AsyncIterator[Engine]:
    engine = await asyncio.to_thread(serving.__enter__)
    try:
        yield engine
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)


def _vllm_flags(port: int) -> list[str]:
    return [
        *("--served-model-name", MODEL_NAME, "--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", str(CONTEXT_TOKENS), "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        "--enable-scale-out",
    ]


def _environment() -> dict[str, str]:
    """One thread each: two on shared cores are slower than one. Nothing is looked up on a network."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    vllm = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_SERVER_DEV_MODE": "1"}
    return {**os.environ, **threads, **offline, **vllm}


@dataclass(frozen=True)
class _Launch:
    folder: Path
    port: int
    timeout_s: float
    probe: str = "/v1/chat/completions"

    @property
    def log(self) -> Path:
        return self.folder / f"engine-{self.port}.log"

    def start(self, argv: Sequence[str], hand_over: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
        with self.log.open("wb") as output:
            return subprocess.Popen(
                argv,
                cwd=ROOT,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=hand_over,
                start_new_session=True,
            )

    def running(self, process: "subprocess.Popen[bytes]") -> Iterator[Engine]:
        """Ready means that it has answered: vLLM's /health says yes to an engine that dies at the first request."""
        started, url = time.monotonic(), f"http://127.0.0.1:{self.port}"
        try:
            while not self._answers(url):
                end = self.log.read_text(encoding="utf-8", errors="replace")[-6000:]
                assert process.poll() is None, f"the engine died:\n{end}"
                assert time.monotonic() - started < self.timeout_s, f"the engine does not answer:\n{end}"
                time.sleep(0.2)
            yield Engine(url, self.folder, process.pid, time.monotonic() - started)
        finally:
            _stop(process)

    def _answers(self, url: str) -> bool:
        body = chat_body([{"role": "user", "content": "ready?"}], max_tokens=1)
        try:
            answer = httpx.post(url + self.probe, json=body, timeout=ANSWER_TIMEOUT_S, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.status_code == 200


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """The whole group: vLLM's engine is a child of its server."""
    for word in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, word)
            process.wait(STOP_TIMEOUT_S)


def _free_port() -> int:
    """vLLM takes a number and no socket; nobody else is likely to be given this one in between."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
