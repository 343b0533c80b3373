"""One OpenCode run in a sandbox, from its files to what it left behind. Knows processes and time, not their meaning."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agent_servers.opencode_agent import settings
from agent_servers.opencode_agent.journal import Journal, read_events, read_export
from agent_servers.opencode_agent.settings import Model
from gym_core.sandbox.contract import ExecResult, Launch, Sandbox

log = logging.getLogger(__name__)

MAX_JOURNAL_BYTES = 96 << 20
"""Event lines hold every picture that was read, as base64. A longer file is read from its end."""
TAIL_BYTES = 16 << 20
MAX_COMPLAINT_BYTES = 400
STOP_TIMEOUT_S = 20.0
EXPORT_TIMEOUT_S = 120.0
"""It takes a second; more where many runs share a processor."""
MAX_STARTS = 2
MAX_PATIENCE = 5
"""How many start time-outs a slow start may take, as long as it uses the processor."""
MIN_TICKS = 10
"""CPU time within BUSY_WINDOW_S that tells a slow start from a hung one, in hundredths of a second."""
BUSY_WINDOW_S = 2.0

_SESSION_ID = re.compile(r"^ses_[A-Za-z0-9]{1,64}$")

HasCalled = Callable[[], Awaitable[bool | None]]
"""Whether the session's first model call began; None when that cannot be known."""


@dataclass(frozen=True)
class Assignment:
    """What OpenCode is to do. Image paths are absolute, and lie in the sandbox already."""

    prompt: str
    images: Sequence[str]
    model: Model
    timeout_s: float
    start_timeout_s: float


@dataclass
class Played:
    result: ExecResult
    journal: Journal
    notes: list[str] = field(default_factory=list)
    complaint: str = ""
    """The end of what OpenCode said on its error output; read only where the journal is empty."""


async def play(sandbox: Sandbox, assignment: Assignment, has_called: HasCalled) -> Played:
    """Run OpenCode to its end or the time limit, stop all that is left of it, and read its journal.

    Raises what the sandbox raises.
    """
    notes: list[str] = []
    await _write_files(sandbox, assignment)
    launch = _launch(assignment)
    started = time.monotonic()
    for attempt in range(1, MAX_STARTS + 1):
        left_s = max(1.0, assignment.timeout_s - (time.monotonic() - started))
        launch = launch.model_copy(update={"timeout_s": left_s})
        result = await _run(sandbox, launch, assignment.start_timeout_s, has_called)
        await sandbox.exec(Launch(argv=settings.STOP_COMMAND, timeout_s=STOP_TIMEOUT_S))
        if result is not None:
            journal = await _read_journal(sandbox, notes)
            complaint = "" if journal.messages or journal.errors else await _read_complaint(sandbox)
            return Played(result, journal, notes, complaint)
        log.warning("opencode hung at its start", extra={"sandbox": sandbox.id, "attempt": attempt})
        notes.append("hung_at_start")
    return Played(ExecResult(exit_code=None, signal=9, timed_out=True), Journal(), notes)


async def _write_files(sandbox: Sandbox, assignment: Assignment) -> None:
    config = settings.make_config(assignment.model, timeout_s=assignment.timeout_s)
    await sandbox.write(settings.CONFIG_FILE, config.encode(), mode=0o600)
    await sandbox.write(settings.PROMPT_FILE, assignment.prompt.encode("utf-8", "replace"))


def _launch(assignment: Assignment) -> Launch:
    timezone = settings.timezone_away_from_midnight(datetime.now(UTC), assignment.timeout_s)
    return Launch(
        argv=settings.run_command(assignment.images),
        env=settings.make_environment(max_output_tokens=assignment.model.max_output_tokens, timezone=timezone),
        timeout_s=assignment.timeout_s,
        output_cap_bytes=1 << 16,
    )


async def _run(sandbox: Sandbox, launch: Launch, start_timeout_s: float, has_called: HasCalled) -> ExecResult | None:
    """None when OpenCode hung before its first model call."""
    running = asyncio.ensure_future(sandbox.exec(launch))
    try:
        for _ in range(MAX_PATIENCE):
            done, _ = await asyncio.wait({running}, timeout=start_timeout_s)
            if done or await has_called() is not False:
                return await running
            if not await _is_busy(sandbox, min(BUSY_WINDOW_S, start_timeout_s)):
                break
        return running.result() if running.done() else None
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(running, return_exceptions=True)


async def _is_busy(sandbox: Sandbox, window_s: float) -> bool:
    before = await _cpu_ticks(sandbox)
    await asyncio.sleep(window_s)
    return await _cpu_ticks(sandbox) - before >= MIN_TICKS


async def _cpu_ticks(sandbox: Sandbox) -> int:
    """CPU time of everything in the sandbox so far, in hundredths of a second."""
    look = Launch(argv=["/bin/sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null"], timeout_s=STOP_TIMEOUT_S)
    ticks = 0
    for line in (await sandbox.exec(look)).stdout.splitlines():
        fields = line.rpartition(b")")[2].split()  # state is the first one, utime and stime are 12 and 13
        if len(fields) > 13 and fields[11].isdigit() and fields[12].isdigit():
            ticks += int(fields[11]) + int(fields[12])
    return ticks


async def _read_journal(sandbox: Sandbox, notes: list[str]) -> Journal:
    """From the event lines when they are whole; from an export, a second of CPU, when something may be missing."""
    events = await asyncio.to_thread(read_events, await _read_events(sandbox, notes))
    if events.ends_cleanly or not _SESSION_ID.match(events.session_id or ""):
        return events
    export = await _export(sandbox, events.session_id or "")
    if export is None or len(export.messages) < len(events.messages):
        notes.append("export_missing")
        return events
    return Journal(
        messages=export.messages,
        errors=export.errors or events.errors,
        session_id=export.session_id,
        version=export.version,
        unreadable=export.unreadable,
    )


async def _read_events(sandbox: Sandbox, notes: list[str]) -> bytes:
    try:
        return await sandbox.read(settings.EVENTS_FILE, MAX_JOURNAL_BYTES)
    except FileNotFoundError:
        return b""
    except OSError:  # the model closed it, or made a loop of links of it
        notes.append("events_unreadable")
        return b""
    except ValueError:
        notes.append("events_cut")
    tail = Launch(
        argv=["tail", "-c", str(TAIL_BYTES), settings.EVENTS_FILE],
        timeout_s=STOP_TIMEOUT_S,
        output_cap_bytes=TAIL_BYTES,
    )
    return (await sandbox.exec(tail)).stdout.partition(b"\n")[2]


async def _export(sandbox: Sandbox, opencode_session_id: str) -> Journal | None:
    environment = settings.make_environment(max_output_tokens=1, timezone="UTC")
    command = settings.export_command(opencode_session_id)
    result = await sandbox.exec(Launch(argv=command, env=environment, timeout_s=EXPORT_TIMEOUT_S))
    if not result.ok:
        return None
    try:
        content = await sandbox.read(settings.EXPORT_FILE, MAX_JOURNAL_BYTES)
    except (OSError, ValueError):
        return None
    return await asyncio.to_thread(read_export, content)


async def _read_complaint(sandbox: Sandbox) -> str:
    tail = Launch(argv=["tail", "-c", str(MAX_COMPLAINT_BYTES), settings.LOG_FILE])
    return (await sandbox.exec(tail)).stdout[:MAX_COMPLAINT_BYTES].decode("utf-8", "replace").strip()
