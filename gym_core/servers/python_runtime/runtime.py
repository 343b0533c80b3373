"""A Python process in a sandbox that keeps its variables between pieces of code, as a model that writes code needs it.

The process is started apart from the command that starts it and listens on a Unix socket in the sandbox. Each piece of
code is one short command there, the client, which takes it to the process and brings back what it printed, its
traceback and its pictures; so any provider will do. The client holds the clock: past it, or when the process breaks
off, it kills the process with all that it started, and the next code has a new one.

Cost, in an embedded sandbox on one of two shared cores: 28 ms a piece of code beside its own time, most of it the start
of the client's Python; 0.1 s a process, and what the prelude imports (matplotlib 0.4 s); 50 ms from the time-out of a
piece of code to the answer. `python -m tests.bench python_runtime` measures it.
"""

import asyncio
import base64
import contextlib
import json
import logging
import secrets
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gym_core.errors import SandboxError, SandboxLost
from gym_core.sandbox.contract import Launch, Sandbox
from gym_core.servers.python_runtime.reply import Life, Reply
from gym_core.servers.python_runtime.settings import Execution, RuntimeSettings, Setup
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

FOLDER = "/tmp/.python_runtime"
"""Of the socket and the setup's files, in the sandbox."""

MAX_CODE_BYTES = 512 << 10
MAX_IMAGES_BYTES = 24 << 20
"""Of all pictures of one execution."""

START_TIMEOUT_S = 60.0
GRACE_S = 30.0
"""How much longer than the code a client may take: to kill a process that forks, and to bring the pictures."""

MAX_REPLY_BYTES = 40 << 20
MAX_START_BYTES = 1 << 20
_ARGUMENT_CHARS = 100_000
"""Linux takes no argument of 128 KiB or more."""

_START_TRIES_S = 2.0
"""For so long a start that failed is tried again, with pauses."""
_START_PAUSE_S = 0.5

_BOOT = """
import builtins, json
with open(3, "rb") as file:
    start = json.load(file)
parts = {}
for name, text in start["sources"].items():
    # Functions of builtins that the model's code replaces stay what they were in here.
    parts[name] = {"__name__": "_runtime_" + name, "__builtins__": dict(vars(builtins))}
    exec(compile(text, "<" + name + ">", "exec"), parts[name])
parts["worker"]["main"](start, parts["showing"]["Screen"](start), 4)
"""
_ENV = {
    "MPLBACKEND": "Agg",
    "PYTHONDONTWRITEBYTECODE": "1",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
_NEW_PROCESS = (
    "a new Python process takes the next code: variables are gone, what was given at the beginning is there again"
)


class PythonRuntime:
    """One process at a time, started when the first code comes. The sandbox is the caller's, who also closes it.

    `folder` is a folder in the sandbox that nobody else uses.
    """

    def __init__(self, sandbox: Sandbox, settings: RuntimeSettings, setup: Setup, *, folder: str = FOLDER) -> None:
        self._sandbox = sandbox
        self._settings = settings
        self._setup = setup
        self._folder = folder
        self._life: Life | None = None
        """Of the process that takes the next code."""
        self._old_lives: list[Life] = []
        """Of processes that may have left something."""
        self._has_run = False
        """Some code, however it ended."""
        self._turn = asyncio.Lock()

    @property
    def folder(self) -> str:
        """In the sandbox, with the setup's files."""
        return self._folder

    async def run(self, code: str) -> Execution:
        """Run a piece of code; one at a time. What the code does wrong, to the process too, is in the result.

        Raises SandboxLost when the sandbox is gone, SandboxError when no process can be had there; before any code has
        run, OSError where the setup's files do not fit, and RuntimeError when the prelude fails, which are ours.
        """
        content = code.encode("utf-8", "replace")
        if len(content) > MAX_CODE_BYTES:
            return Execution("not_run", "", (), restarted=False, notes=(f"over {MAX_CODE_BYTES} bytes of code",))
        async with self._turn:
            try:
                life = self._life or await self._start()
            except (OSError, RuntimeError) as error:
                if not self._has_run:
                    raise
                # It could be done before, so it is what the code left that is in the way: a full disk, say.
                return Execution("not_run", "", (), restarted=True, notes=_no_process(error))
            # Not trusted again unless this code ends well; the call may also be cancelled.
            self._life, self._old_lives = None, [life]
            reply = await self._exchange(life, content)
            self._has_run = True
            if reply is not None and not reply.is_over:
                self._life, self._old_lives = life, []
            return self._execution(reply)

    async def close(self) -> None:
        """End the process and all that it started, where the sandbox still is; closing twice is fine."""
        async with self._turn:
            lives = [*self._old_lives, *([self._life] if self._life else [])]
            self._life, self._old_lives = None, []
            if lives:
                with contextlib.suppress(SandboxError):
                    await self._ask({"op": "stop"}, lives, timeout_s=GRACE_S)

    async def _start(self) -> Life:
        loop = asyncio.get_running_loop()
        last = loop.time() + _START_TRIES_S
        while True:
            try:
                return await self._started()
            except SandboxLost:
                raise
            except SandboxError:  # what uses up the last process there may be about to end
                if loop.time() > last:
                    raise
                await asyncio.sleep(_START_PAUSE_S)

    async def _started(self) -> Life:
        """Ends what earlier processes left, too."""
        for path, content in self._setup.files.items():
            await self._sandbox.write(f"{self._folder}/{path}", content)
        token, lives = secrets.token_hex(8), self._old_lives
        self._old_lives = [*lives, Life(token=token, leader=0, born=0)]  # from now on, whatever comes of it
        reply = await self._ask(self._start_request(token), lives, timeout_s=START_TIMEOUT_S + GRACE_S)
        if reply.outcome == "ok" and reply.life and not reply.is_over:
            return reply.life
        said = reply.text(2000).strip()
        raise RuntimeError(f"a Python runtime does not start: {reply.outcome}: {said or 'without a word'}")

    def _start_request(self, token: str) -> JsonObject:
        settings = self._settings
        return {
            "op": "start",
            "folder": self._folder,
            "token": token,
            "start": {
                "sources": {"showing": _source("showing"), "worker": _source("worker")},
                "folder": self._folder,
                "workdir": self._sandbox.workdir,
                "prelude": self._setup.prelude,
                "max_images": settings.max_images,
                "max_image_pixels": settings.max_image_pixels,
                "max_images_bytes": MAX_IMAGES_BYTES,
                "max_aspect_ratio": settings.max_aspect_ratio,
            },
            "boot": _BOOT,
            "python": "python3",
            "env": {**_ENV, "MPLCONFIGDIR": f"{self._folder}/matplotlib"},
            "workdir": self._sandbox.workdir,
            "timeout_s": START_TIMEOUT_S,
        }

    async def _exchange(self, life: Life, content: bytes) -> Reply | None:
        """None when the client did not live to answer; raises SandboxLost alone."""
        settings = self._settings
        request: JsonObject = {
            "op": "run",
            "folder": self._folder,
            "token": life.token,
            "code": base64.b64encode(content).decode(),
            "timeout_s": settings.timeout_s,
            "max_output_bytes": settings.max_output_chars * 4,
            "max_images": settings.max_images,
            "max_images_bytes": MAX_IMAGES_BYTES,
        }
        try:
            return await self._ask(request, [life], timeout_s=settings.timeout_s + GRACE_S)
        except SandboxLost:
            raise
        except SandboxError as error:  # the code may kill its client, and use up every process
            log.info("python client lost", extra={"sandbox": self._sandbox.id, "reason": str(error)[:200]})
            return None

    async def _ask(self, request: JsonObject, lives: Sequence[Life], *, timeout_s: float) -> Reply:
        """Raises SandboxError for an answer that is none."""
        request = {**request, "lives": [life.model_dump() for life in lives]}
        words = base64.b64encode(json.dumps(request).encode()).decode()
        arguments = [words[start : start + _ARGUMENT_CHARS] for start in range(0, len(words), _ARGUMENT_CHARS)]
        argv = ["python3", "-I", "-S", "-c", _source("client"), *arguments]
        cap = MAX_REPLY_BYTES if request["op"] == "run" else MAX_START_BYTES
        done = await self._sandbox.exec(Launch(argv=argv, cwd="/", timeout_s=timeout_s, output_cap_bytes=cap))
        try:
            return await asyncio.to_thread(Reply.from_json, done.stdout)
        except ValueError as error:
            said = done.stderr[-300:].decode("utf-8", "replace")
            how = "was out of time" if done.timed_out else f"ended with {done.exit_code} or by signal {done.signal}"
            raise SandboxError(f"sandbox {self._sandbox.id!r}: the Python runtime's client {how}: {said}") from error

    def _execution(self, reply: Reply | None) -> Execution:
        if reply is None:
            return Execution("died", "", (), restarted=True, notes=_notes("died", self._settings))
        images = reply.pictures()[: self._settings.max_images]
        notes = reply.words()
        if reply.dropped_bytes:
            notes.append(f"the output was longer than {self._settings.max_output_chars} characters, and is cut")
        if reply.is_over:
            notes += _notes(reply.outcome, self._settings)
        text = reply.text(self._settings.max_output_chars)
        return Execution(reply.outcome, text, images, restarted=reply.is_over, notes=notes)


def _notes(outcome: str, settings: RuntimeSettings) -> Sequence[str]:
    said = {
        "timed_out": f"the code did not end within {settings.timeout_s:g} seconds, so its process was killed",
        "died": "the Python process ended while the code ran",
        "not_run": "the Python process had ended since the last code, so this code was not run",
    }.get(outcome)
    return [*([said] if said else []), _NEW_PROCESS]


def _no_process(error: Exception) -> Sequence[str]:
    reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
    return [f"no new Python process could be started, so this code was not run: {reason[0][:200]}"]


@cache
def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text("utf-8")
