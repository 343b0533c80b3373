"""Many owners of many embedded sandboxes, some of them killed by SIGKILL as they go.

    python -m tests.sandboxes.crowd STATE_DIR OWNERS DOOMED BOXES_EACH

Owners are forks of one process that has imported everything; so many as `AT_ONCE` live at a time. Each makes its
sandboxes, runs a command that leaves two processes behind in each, and closes them; the doomed are killed when they
have made some of them, whatever they are at. Prints what it did: see `Crowd`.
"""

import asyncio
import io
import os
import random
import selectors
import signal
import sys
import time
from dataclasses import dataclass, field

from gym_core.sandbox.contract import Launch, SandboxResources, SandboxSpec
from gym_core.sandbox.owner import start_ticks
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from gym_core.types.wire import Wire
from tests.sandboxes.leftovers import namespaces_of, uid_of

AT_ONCE = 5
_BATCH = 10
_SEED = 20260
_SPEC = SandboxSpec(resources=SandboxResources(memory_mib=64, workspace_mib=8, pids=32))
_LEAVE = Launch(argv=["sh", "-c", "setsid sleep 733 >/dev/null 2>&1 & sleep 733 >/dev/null 2>&1 &"])


class Made(Wire):
    """One sandbox, as the host saw it."""

    pid: int
    """Of process 1."""
    start_ticks: int
    uid: int
    namespaces: list[str]


class Crowd(Wire):
    opened: int
    killed: int
    """Owners that got SIGKILL and died of it."""
    failed: int
    """Owners that ended badly by themselves."""
    made: list[Made]
    seconds: float


@dataclass
class _Owner:
    pid: int
    reports: io.FileIO
    """A pipe, with a line for each sandbox made; not buffered, so that what is there can be waited for."""
    dies_after: int | None
    made: list[Made] = field(default_factory=list)


async def own(state_dir: str, number: int, boxes: int, reports: int) -> None:
    provider = LocalProvider(LocalSandboxConfig(state_dir=state_dir))

    async def make(index: int) -> None:
        box = await provider.create(f"crowd-{number}-{index}", _SPEC)
        await box.exec(_LEAVE)
        pid = box.init_pid or 0
        made = Made(pid=pid, start_ticks=start_ticks(pid) or 0, uid=uid_of(pid), namespaces=namespaces_of(pid))
        os.write(reports, made.model_dump_json().encode() + b"\n")

    for start in range(0, boxes, _BATCH):
        await asyncio.gather(*(make(index) for index in range(start, min(start + _BATCH, boxes))))
    await provider.aclose()


def begin(state_dir: str, number: int, boxes: int, dies_after: int | None) -> _Owner:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read_end)
            asyncio.run(own(state_dir, number, boxes, write_end))
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    return _Owner(pid, io.FileIO(read_end), dies_after)


def run(state_dir: str, owners: int, doomed: int, boxes: int) -> Crowd:
    chance = random.Random(_SEED)
    deaths = [chance.randrange(1, boxes) for _ in range(doomed)] + [None] * (owners - doomed)
    chance.shuffle(deaths)
    start, made, codes = time.monotonic(), list[Made](), list[int]()
    for wave in range(0, owners, AT_ONCE):
        living = [begin(state_dir, wave + n, boxes, after) for n, after in enumerate(deaths[wave : wave + AT_ONCE])]
        watch(living)
        for owner in living:
            made += owner.made
            codes.append(os.waitstatus_to_exitcode(os.waitpid(owner.pid, 0)[1]))
    return Crowd(
        opened=len(made),
        killed=codes.count(-signal.SIGKILL),
        failed=sum(code not in (0, -signal.SIGKILL) for code in codes),
        made=made,
        seconds=time.monotonic() - start,
    )


def watch(owners: list[_Owner]) -> None:
    """Until all have ended; kills each of the doomed when its time has come."""
    with selectors.DefaultSelector() as selector:
        for owner in owners:
            selector.register(owner.reports, selectors.EVENT_READ, owner)
        while selector.get_map():
            for key, _ in selector.select():
                owner = key.data
                if line := owner.reports.readline():
                    owner.made.append(Made.model_validate_json(line))
                    if len(owner.made) == owner.dies_after:
                        os.kill(owner.pid, signal.SIGKILL)
                else:
                    selector.unregister(owner.reports)
                    owner.reports.close()


if __name__ == "__main__":
    sys.stdout.write(run(sys.argv[1], *map(int, sys.argv[2:5])).model_dump_json())
