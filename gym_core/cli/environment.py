"""`gym env start` keeps the servers of a configuration up; `gym env status` shows those of a running gym."""

import argparse
import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from gym_core.cli.launcher import OpenGym, open_gym
from gym_core.cli.readiness import ensure_toolkit, warn_of_literal_secrets
from gym_core.cli.selection import Selection
from gym_core.cli.state import HeadState, announce, find_head
from gym_core.cli.terminal import duration, printable, say, table, tell
from gym_core.errors import EpisodeError, FailureKind, TransportError

if TYPE_CHECKING:
    from gym_core.config.blocks import CheckedConfig
    from gym_core.launch.warmup import Warmup


class ServerRow(BaseModel):
    """What we show of an entry of GET /server_instances."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    server_type: str = ""
    implementation: str = ""
    url: str = ""
    status: str = ""
    pid: int | None = None
    uptime_seconds: float | None = None
    restarts: int = 0


def start_command(args: argparse.Namespace) -> int:
    from gym_core.launch.warmup import warming_up

    with warming_up() as warmup:
        checked = Selection.of(args).check()
        warn_of_literal_secrets(checked)
        ensure_toolkit(checked)
    asyncio.run(_start(checked, warmup))
    return 0


async def _start(checked: "CheckedConfig", warmup: "Warmup") -> None:
    async with open_gym(checked, warmup=warmup) as gym:
        await stay_up(gym)
    tell("gym: stopped")


async def stay_up(gym: OpenGym) -> None:
    """Say where the gym is, until Ctrl-C or SIGTERM. Raises EpisodeError when the gym ends by itself."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stopped.set)
    waiting = asyncio.create_task(stopped.wait())
    either: list[asyncio.Future[Literal[True]] | asyncio.Future[str]] = [waiting, gym.died]
    try:
        with announce(gym) as state:
            for line in started_lines(state):
                say(line)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        for number in signals:
            loop.remove_signal_handler(number)
    if not stopped.is_set():
        raise EpisodeError(gym.died.result(), kind=FailureKind.SHUTDOWN)


def started_lines(state: HeadState) -> list[str]:
    return [
        f"head server  {state.url}",
        f"token        in {state.token_file} (GYM_API_KEY too, where it was set)",
        f'try          curl -H "Authorization: Bearer $(cat {state.token_file})" {state.url}/server_instances',
        "stop         Ctrl-C",
    ]


def status_command(args: argparse.Namespace) -> int:
    state = find_head(args.head)
    raw = asyncio.run(_ask(state))
    if args.json:
        sys.stdout.write(raw.decode("utf-8", "replace") + "\n")
        return 0
    try:
        rows = TypeAdapter(list[ServerRow]).validate_json(raw)
    except ValidationError as error:
        raise TransportError(f"{printable(state.url)} does not answer like a head server: {error}") from error
    for line in [printable(f"head server {state.url}"), *status_lines(rows)]:
        say(line)
    return 0


def status_lines(rows: list[ServerRow]) -> list[str]:
    cells = [("server", "type", "status", "up", "restarts", "pid", "url")]
    for row in rows:
        up = duration(row.uptime_seconds) if row.uptime_seconds is not None else ""
        kind = f"{row.server_type}/{row.implementation}"
        pid = str(row.pid) if row.pid is not None else ""
        cells.append((row.name, kind, row.status, up, str(row.restarts), pid, row.url))
    return table([tuple(printable(cell) for cell in line) for line in cells])


async def _ask(state: HeadState) -> bytes:
    from gym_core.http.client import HttpPool

    async with HttpPool() as pool:
        return await pool.service(state.url, state.token()).call_raw("GET", "/server_instances", timeout_s=10)
