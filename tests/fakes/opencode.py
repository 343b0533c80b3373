"""OpenCode as a fake sandbox plays it: it answers the agent server's commands with a journal that a test gives it.

sandbox.on_exec(FakeOpenCode(recorded("normal")))
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from agent_servers.opencode_agent import settings
from gym_core.sandbox.contract import ExecResult, Launch
from tests.fakes.sandbox import FakeSandbox

_DATA = Path(__file__).parents[1] / "unit" / "opencode" / "data"


@dataclass(frozen=True)
class Recording:
    """A run's journal; see the README beside the recordings."""

    events: bytes = b""
    export: bytes | None = None
    """None makes `opencode export` fail."""


def recorded(name: str) -> Recording:
    export = _DATA / f"{name}.export.json"
    return Recording((_DATA / f"{name}.events.jsonl").read_bytes(), export.read_bytes() if export.exists() else None)


@dataclass
class FakeOpenCode:
    """Counts what was asked of it."""

    recording: Recording = Recording()
    result: ExecResult = ExecResult(exit_code=0)
    log: bytes = b""
    hangs: int = 0
    """So many starts write nothing and never end."""
    is_busy: bool = False
    """Whether a start that hangs uses the processor."""
    ends_late: asyncio.Event | None = None
    """When set, a run that does not hang waits for it."""
    runs: list[Launch] = field(default_factory=list)
    stops: int = 0
    exports: int = 0
    _ticks: int = 0

    async def __call__(self, launch: Launch, sandbox: FakeSandbox) -> ExecResult:
        line = launch.argv[-1]
        if launch.argv == settings.STOP_COMMAND:
            self.stops += 1
        elif "opencode run" in line:
            return await self._run(launch, sandbox)
        elif "opencode export" in line:
            self.exports += 1
            if self.recording.export is None:
                return ExecResult(exit_code=1)
            sandbox.files[settings.EXPORT_FILE] = self.recording.export
        elif launch.argv[0] == "tail":
            return ExecResult(exit_code=0, stdout=sandbox.files[line][-int(launch.argv[2]) :])
        elif "/proc/" in line:
            self._ticks += 500 if self.is_busy else 1
            return ExecResult(exit_code=0, stdout=b"7 (opencode) R 1 7 7 0 -1 0 0 0 0 0 %d 0 0 0\n" % self._ticks)
        return ExecResult(exit_code=0)

    async def _run(self, launch: Launch, sandbox: FakeSandbox) -> ExecResult:
        self.runs.append(launch)
        sandbox.files.pop(settings.EVENTS_FILE, None)
        if len(self.runs) <= self.hangs:
            await asyncio.Event().wait()
        if self.ends_late is not None:
            await self.ends_late.wait()
        sandbox.files[settings.EVENTS_FILE] = self.recording.events
        sandbox.files[settings.LOG_FILE] = self.log
        return self.result
