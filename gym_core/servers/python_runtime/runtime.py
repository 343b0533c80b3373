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
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from gym_core.errors import EpisodeError, SandboxError, SandboxLost
from gym_core.sandbox.contract import Launch, Sandbox
from gym_core.servers.python_runtime.reply import Life, Reply
from gym_core.servers.python_runtime.settings import Execution, Outcome, RuntimeSettings, Setup
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

FOLDER = "/tmp/.python_runtime"
"""Of the socket and the setup's files, in the sandbox."""

MAX_CODE_BYTES = 512 << 10
MAX_IMAGES_BYTES = 24 << 20
"""Of all pictures of one execution."""

START_TIMEOUT_S = 60.0
START_LIMIT_S = 85.0
"""Of all that comes before the code, further tries included: the end of earlier processes, the files, the start."""
_CLIENT_GRACE_S = 30.0
"""How much longer than the code a client may take: to kill a process that forks, and to bring the pictures."""
_LOOK_TIMEOUT_S = 10.0
"""Of the sandbox, to answer from outside when no client did."""
GRACE_S = _CLIENT_GRACE_S + _LOOK_TIMEOUT_S
"""How much longer than the code an execution may take."""

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


class _NoReply(SandboxError):
    """A client ran, and its answer is none: the sandbox did as it was asked."""


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

        Takes `START_LIMIT_S`, the time of the code and `GRACE_S` at most. Raises SandboxLost when the sandbox is gone,
        SandboxError when it is out of reach. Before any code has run what fails is ours: SandboxError when no process
        can be had, OSError where the setup's files do not fit, RuntimeError when the prelude fails.
        """
        content = code.encode("utf-8", "replace")
        if len(content) > MAX_CODE_BYTES:
            return Execution("not_run", "", (), restarted=False, notes=(f"over {MAX_CODE_BYTES} bytes of code",))
        async with self._turn:
            try:
                life = self._life or await self._start()
            except SandboxLost:
                raise
            except (OSError, RuntimeError, SandboxError) as error:
                if not self._has_run:
                    raise
                await self._must_answer(error)
                # It could be done before, so it is what the code left that is in the way: a full disk, say.
                return Execution("not_run", "", (), restarted=True, notes=_no_process(error))
            return await self._run_in(life, content, self._settings.timeout_s)

    async def hand_over(self, files: Mapping[str, bytes], code: str, *, timeout_s: float) -> Execution | None:
        """Files more for the folder, and code of ours that takes them into the model's names; None where no process
        lives: a new one finds what was added to the setup's.

        Takes twice `timeout_s` and `GRACE_S` at most: the files have one, and the code, since the model's may stand in
        its way, another. What fails is in the result: the model's code has run. Raises SandboxLost when the sandbox is
        gone, SandboxError when it is out of reach.
        """
        async with self._turn:
            if self._life is None:
                return None
            try:
                async with asyncio.timeout(timeout_s):
                    await self._write(files)
            except SandboxLost:
                raise
            except (OSError, SandboxError) as error:  # a time-out is an OSError
                await self._must_answer(error)
                return Execution("not_run", "", (), restarted=False, notes=[_last_line(error)])
            return await self._run_in(self._life, code.encode(), timeout_s)

    async def close(self) -> None:
        """End the process and all that it started, where the sandbox still is; closing twice is fine."""
        async with self._turn:
            lives = [*self._old_lives, *([self._life] if self._life else [])]
            self._life, self._old_lives = None, []
            if lives:
                with contextlib.suppress(SandboxError):
                    await self._ask({"op": "stop"}, lives, timeout_s=_CLIENT_GRACE_S)

    async def _run_in(self, life: Life, content: bytes, timeout_s: float) -> Execution:
        # Not trusted again unless this code ends well; the call may also be cancelled.
        self._life, self._old_lives, self._has_run = None, [life], True
        reply = await self._exchange(life, content, timeout_s)
        if not reply.is_over:
            self._life, self._old_lives = life, []
        return self._execution(reply, timeout_s)

    async def _start(self) -> Life:
        loop = asyncio.get_running_loop()
        last = loop.time() + _START_TRIES_S
        try:
            async with asyncio.timeout(START_LIMIT_S):
                while True:
                    try:
                        return await self._started()
                    except SandboxLost:
                        raise
                    except SandboxError:  # what uses up the last process there may be about to end
                        if loop.time() > last:
                            raise
                        await asyncio.sleep(_START_PAUSE_S)
        except TimeoutError as error:
            raise SandboxError(f"sandbox {self._sandbox.id!r}: no Python process within {START_LIMIT_S:g} s") from error

    async def _started(self) -> Life:
        if self._old_lives:  # first of all: what they left may hold the room that the files need
            await self._ask({"op": "stop"}, self._old_lives, timeout_s=_CLIENT_GRACE_S)
            self._old_lives = []
        await self._write(self._setup.files)
        token = secrets.token_hex(8)
        self._old_lives = [Life(token=token, leader=0, born=0)]  # from now on, whatever comes of it
        reply = await self._ask(self._start_request(token), [], timeout_s=START_LIMIT_S)
        if reply.outcome == "ok" and reply.life and not reply.is_over:
            return reply.life
        said = reply.text(2000).strip()
        raise RuntimeError(f"a Python runtime does not start: {reply.outcome}: {said or 'without a word'}")

    async def _write(self, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            await self._sandbox.write(f"{self._folder}/{name}", content)

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

    async def _exchange(self, life: Life, content: bytes, timeout_s: float) -> Reply:
        """Raises SandboxError where the sandbox is gone or out of reach: else the code may have killed its client, or
        used up every process.
        """
        settings, loop = self._settings, asyncio.get_running_loop()
        request: JsonObject = {
            "op": "run",
            "folder": self._folder,
            "token": life.token,
            "code": base64.b64encode(content).decode(),
            "timeout_s": timeout_s,
            "max_output_bytes": settings.max_output_chars * 4,
            "max_images": settings.max_images,
            "max_images_bytes": MAX_IMAGES_BYTES,
        }
        began, limit_s = loop.time(), timeout_s + _CLIENT_GRACE_S
        try:
            async with asyncio.timeout(limit_s):
                return await self._ask(request, [life], timeout_s=limit_s)
        except SandboxLost:
            raise
        except (SandboxError, TimeoutError) as error:
            log.info("python client lost", extra={"sandbox": self._sandbox.id, "reason": str(error)[:200]})
            took_s = loop.time() - began
            await self._must_answer(error)
        # A client that outlived the code's time was about to end it, and what the code had started kept it from that.
        return _unanswered("timed_out" if took_s >= timeout_s else "died")

    async def _must_answer(self, error: Exception) -> None:
        """Raises SandboxError where the sandbox does not answer from outside either: no code can bring that about.

        It is asked to be renewed, which starts nothing inside: all of its processes may be used up.
        """
        if isinstance(error, _NoReply) or not isinstance(error, SandboxError | TimeoutError):
            return  # it did answer
        try:
            async with asyncio.timeout(_LOOK_TIMEOUT_S):
                await self._sandbox.renew()
        except SandboxLost:
            raise
        except (EpisodeError, OSError) as silence:
            reason = _last_line(error)
            raise SandboxError(f"sandbox {self._sandbox.id!r} does not answer: {reason}") from silence

    async def _ask(self, request: JsonObject, lives: Sequence[Life], *, timeout_s: float) -> Reply:
        """Raises _NoReply for an answer that is none."""
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
            raise _NoReply(f"sandbox {self._sandbox.id!r}: the Python runtime's client {how}: {said}") from error

    def _execution(self, reply: Reply, timeout_s: float) -> Execution:
        images = reply.pictures()[: self._settings.max_images]
        notes = reply.words()
        if reply.dropped_bytes:
            notes.append(f"the output was longer than {self._settings.max_output_chars} characters, and is cut")
        if reply.is_over:
            notes += _notes(reply.outcome, timeout_s)
        text = reply.text(self._settings.max_output_chars)
        return Execution(reply.outcome, text, images, restarted=reply.is_over, notes=notes)


def _unanswered(outcome: Outcome) -> Reply:
    return Reply(outcome=outcome, head="", tail="", dropped_bytes=0, images=[], notes=[], is_over=True)


def _notes(outcome: Outcome, timeout_s: float) -> Sequence[str]:
    said = {
        "timed_out": f"the code did not end within {timeout_s:g} seconds, so its process was killed",
        "died": "the Python process ended while the code ran",
        "not_run": "the Python process had ended since the last code, so this code was not run",
    }.get(outcome)
    return [*([said] if said else []), _NEW_PROCESS]


def _no_process(error: Exception) -> Sequence[str]:
    return [f"no new Python process could be started, so this code was not run: {_last_line(error)}"]


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1][:200] if lines else type(error).__name__


@cache
def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text("utf-8")
