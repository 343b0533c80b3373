"""A folder for one test's gym: its working folder, its state, its output, and the commands run in it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from gym_core.rollout.sink import read_rows
from gym_core.types.wire import JsonObject
from tests.system.processes import Process, descendants, servers_of

GYM = Path(sys.executable).with_name("gym")
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "GYM_CACHE_DIR", "VIRTUAL_ENV", "OPENBLAS_CORETYPE")
END_TIMEOUT_S = 30.0
"""For everything to be gone after a gym's end, in whatever way it came."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass
class Command:
    """A `gym` command that runs."""

    process: "subprocess.Popen[bytes]"
    house: "House"
    number: int

    @property
    def pid(self) -> int:
        return self.process.pid

    def servers(self) -> dict[str, int]:
        """By name, as far as they run."""
        return servers_of(self.pid)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    async def ended(self, timeout_s: float = 120.0) -> Ended:
        async with asyncio.timeout(timeout_s):
            code = await asyncio.to_thread(self.process.wait)
        return Ended(code, *(self._text(name) for name in ("out", "err")))

    async def until(self, happened: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Raises AssertionError, with what it said, when the command ends or the time is up before."""
        deadline = time.monotonic() + timeout_s
        while not happened():
            ended = self.process.poll()
            assert ended is None, f"ended with {ended} before that:\n{self._text('out')}\n{self._text('err')}"
            assert time.monotonic() < deadline, f"not within {timeout_s} s:\n{self._text('out')}\n{self._text('err')}"
            await asyncio.sleep(0.02)

    def _text(self, name: str) -> str:
        return self.house.said(name, self.number).read_text(encoding="utf-8", errors="replace")


@dataclass
class House:
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    """Added to that of every command."""
    neighbours: set[int] = field(default_factory=set)
    """Pids of processes below this one that are no part of a gym."""
    _commands: list[Command] = field(default_factory=list)

    def __post_init__(self) -> None:
        # What other tests of this worker keep running, such as the server that multiprocessing forks from.
        self.neighbours |= {process.pid for process in descendants()}
        for path in (self.cwd, self.state, self.folder / "runtime"):
            path.mkdir(parents=True, exist_ok=True)

    @property
    def cwd(self) -> Path:
        return self.folder / "cwd"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def output(self) -> Path:
        return self.folder / "results" / "run.jsonl"

    def said(self, stream: str, number: int) -> Path:
        return self.folder / f"command{number}.{stream}"

    # -- commands -----------------------------------------------------------

    def start(self, *words: str, environment: dict[str, str] | None = None) -> Command:
        """`gym WORDS` in this folder, with nothing of the test's own environment but what it needs to run."""
        number = len(self._commands)
        with self.said("out", number).open("wb") as out, self.said("err", number).open("wb") as err:
            process = subprocess.Popen(
                [GYM, *words], cwd=self.cwd, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, env=self.variables() | (environment or {}), start_new_session=True,
            )  # fmt: skip
        command = Command(process, self, number)
        self._commands.append(command)
        return command

    async def run(self, *words: str, timeout_s: float = 120.0) -> Ended:
        return await self.start(*words).ended(timeout_s)

    def variables(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        own = {
            "GYM_STATE_DIR": str(self.state),
            "XDG_RUNTIME_DIR": str(self.folder / "runtime"),
        }
        return kept | own | self.environment

    # -- what there is ------------------------------------------------------

    def rows(self, path: Path | None = None) -> list[JsonObject]:
        return list(read_rows(path or self.output))

    def beside(self, ending: str) -> Path:
        return self.output.with_name(self.output.stem + ending)

    def metrics(self) -> JsonObject:
        found: JsonObject = json.loads(self.beside("_aggregate_metrics.json").read_text())
        return found

    def captures(self) -> list[Path]:
        return list(self.beside("_captures").iterdir())

    def processes(self) -> list[Process]:
        """Every living process that came from a command of this house, wherever it went."""
        return descendants(without=frozenset(self.neighbours))

    def sandbox_records(self) -> list[Path]:
        return list((self.folder / "runtime" / "gym" / "boxes").glob("*.json"))

    def sandbox_cgroups(self) -> list[Path]:
        """Control groups of the sandboxes that are on record."""
        records = [json.loads(path.read_text()) for path in self.sandbox_records()]
        return [Path(group) for record in records for group in record["cgroups"]]

    async def all_gone(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Raises AssertionError naming the processes that are left when the time is up."""
        deadline = time.monotonic() + timeout_s
        while left := self.processes():
            assert time.monotonic() < deadline, f"left behind: {left}"
            await asyncio.sleep(0.05)

    # -- end ----------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End what a failed test left."""
        for process in self.processes():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for command in self._commands:
            command.process.wait()
