"""A running gym around a block of code: start everything, wait until it is ready, end everything."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gym_core.config.blocks import CheckedConfig
from gym_core.errors import EpisodeError, FailureKind
from gym_core.http.client import HttpPool, ServiceClient
from gym_core.launch.children import HEAD, ChildExit, Children
from gym_core.launch.logs import log_tail
from gym_core.launch.plan import LaunchPlan, plan_launch
from gym_core.launch.supervisor import READY_POLL_S, READY_TIMEOUT_S, START_ERROR_FILE
from gym_core.launch.warmup import Warmup, abandon, start_warmup
from gym_core.types.wire import Wire

END_TIMEOUT_S = 20.0


class GymDied(EpisodeError):
    """The head server ended while it was needed."""

    kind = FailureKind.SHUTDOWN


@dataclass(frozen=True)
class RunningGym:
    head_url: str
    token: str
    client: ServiceClient
    died: "asyncio.Future[str]"
    """Done, with the reason, when the gym ended by itself."""
    state_dir: Path


@asynccontextmanager
async def running_gym(checked: CheckedConfig, *, warmup: Warmup | None = None) -> AsyncIterator[RunningGym]:
    """Raises ConfigError (an address cannot be had) or GymDied (a server did not start)."""
    warm = warmup or start_warmup()
    died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    try:
        children = Children(warm.control, lambda exit_: _note_exit(exit_, died, warm.state_dir))
    except BaseException:
        abandon(warm)
        raise
    children.lost.add_done_callback(lambda _: _note_lost(died, warm.state_dir))
    try:
        plan = plan_launch(checked, state_dir=warm.state_dir, argv=sys.argv)
        try:
            await _fork_head(children, plan, warm.state_dir)
        finally:
            plan.close()
        token = plan.head.run_token.get_secret_value()
        async with HttpPool() as pool:
            client = pool.service(plan.head_listener.url, token)
            await _until_ready(client, died)
            yield RunningGym(plan.head_listener.url, token, client, died, warm.state_dir)
    finally:
        children.close()
        await asyncio.to_thread(_wait_for_end, warm.process)


async def _fork_head(children: Children, plan: LaunchPlan, state_dir: Path) -> None:
    fds = [
        _memory_file("head", plan.head),
        os.open(state_dir / "head.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640),
    ]
    slices = [_memory_file(entry.name, plan.slices[entry.name]) for entry in plan.head.servers]
    listeners = [plan.listeners[entry.name].socket.fileno() for entry in plan.head.servers]
    pairs = [fd for pair in zip(slices, listeners, strict=True) for fd in pair]
    try:
        await children.fork(HEAD, [*fds, plan.head_listener.socket.fileno(), *pairs], control=True)
    finally:
        for fd in (*fds, *slices):
            os.close(fd)


def _memory_file(name: str, content: Wire) -> int:
    """A descriptor of a slice, in memory alone: secrets touch no disk, no argv and no environment."""
    fd = os.memfd_create(f"gym-{name}", os.MFD_CLOEXEC)
    data = memoryview(content.model_dump_json(context={"reveal": True}).encode())
    while data:
        data = data[os.write(fd, data) :]
    return fd


async def _until_ready(client: ServiceClient, died: "asyncio.Future[str]") -> None:
    polling = asyncio.create_task(_poll_until_ready(client), name="until-ready")
    either: set[asyncio.Future[None] | asyncio.Future[str]] = {polling, died}
    try:
        await asyncio.wait(either, timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if died.done():
            raise GymDied(died.result())
        if not polling.done():
            raise GymDied(f"the gym was not ready within {READY_TIMEOUT_S:g} s")
        polling.result()
    finally:
        polling.cancel()
        await asyncio.wait({polling})


async def _poll_until_ready(client: ServiceClient) -> None:
    while (await client.send("GET", "/readyz", timeout_s=READY_TIMEOUT_S)).status != 200:  # noqa: ASYNC110 - a poll
        await asyncio.sleep(READY_POLL_S)


def _note_exit(exit_: ChildExit, died: "asyncio.Future[str]", state_dir: Path) -> None:
    if died.done():
        return
    known = state_dir / START_ERROR_FILE
    if known.exists():
        died.set_result(known.read_text(encoding="utf-8"))
    else:
        tail = log_tail(state_dir / "head.log")
        died.set_result(f"the head server ended (code {exit_.code}); {state_dir / 'head.log'}:\n{tail}")


def _note_lost(died: "asyncio.Future[str]", state_dir: Path) -> None:
    if not died.done():
        tail = log_tail(state_dir / "nursery.log")
        died.set_result(f"the nursery process ended; {state_dir / 'nursery.log'}:\n{tail}")


def _wait_for_end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
