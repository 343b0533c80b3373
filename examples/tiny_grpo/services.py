"""What the trainer talks to, as processes of their own: the engine that serves the policy, and a gym in front of it."""

import os
import queue
import re
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0
_HEAD_URL = re.compile(r"head server\s+(http://\S+)")


@dataclass(frozen=True)
class Services:
    engine_url: str
    head_url: str
    token: str


@contextmanager
def started_services(model_dir: Path, logs: Path) -> Iterator[Services]:
    """Up inside, gone after. Raises RuntimeError with the end of the gym's log when it does not start."""
    token = secrets.token_urlsafe(16)
    with ExitStack() as stack:
        engine_url = stack.enter_context(_engine(model_dir, logs / "engine.log"))
        head_url = stack.enter_context(_gym(engine_url, token, logs / "gym.log"))
        yield Services(engine_url, head_url, token)


@contextmanager
def _engine(model_dir: Path, log: Path) -> Iterator[str]:
    """It inherits a socket that listens already: calls wait until the model is loaded."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd = listener.fileno()
        command = [sys.executable, "-m", "examples.tiny_vlm.server", str(model_dir), "--fd", str(fd)]
        with _running(command, log, fds=[fd]):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def _gym(engine_url: str, token: str, log: Path) -> Iterator[str]:
    command = [
        *(str(Path(sys.executable).with_name("gym")), "env", "start"),
        *("--search-dir", str(HERE), "--environment", "colour_naming", "--model-type", "vllm_model"),
        *(f"++policy_base_url={engine_url}/v1", "++policy_model_name=policy", "++policy_api_key=EMPTY"),
    ]
    with _running(command, log, env={"GYM_API_KEY": token}) as process:
        yield _head_url(process, log)


@contextmanager
def _running(
    command: Sequence[str], log: Path, *, env: dict[str, str] | None = None, fds: Sequence[int] = ()
) -> Iterator["subprocess.Popen[str]"]:
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | (env or {}),
            cwd=HERE.parents[1],
            pass_fds=fds,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _head_url(process: "subprocess.Popen[str]", log: Path) -> str:
    """From the line that a gym prints once it is ready."""
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():  # to its end: a full pipe would stop the process
            if match := _HEAD_URL.search(line):
                found.put(match[1])
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        url = found.get(timeout=START_TIMEOUT_S)
    except queue.Empty:
        url = None
    if url is None:
        raise RuntimeError(f"the gym did not start; {log} ends:\n{log.read_text(encoding='utf-8')[-2000:]}")
    return url
