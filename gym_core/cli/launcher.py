"""The commands' view of the launch layer: a running gym and the runs of its head server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gym_core.errors import EpisodeError
from gym_core.types.run import RunOptions, RunProgress, RunResult

if TYPE_CHECKING:
    from gym_core.config.blocks import CheckedConfig
    from gym_core.launch.warmup import Warmup


class HeadRuns(Protocol):
    """Runs, over the head server's REST routes: the very calls that trainers make."""

    async def start_run(self, options: RunOptions) -> str:
        """The run's id."""
        ...

    def watch(self, run_id: str) -> AsyncIterator[RunProgress | RunResult]:
        """Snapshots, and at last the result. Raises TransportError when the stream ends without one."""
        ...

    async def cancel(self, run_id: str, *, drain: bool) -> None:
        """Stop it; with `drain` what runs is finished first."""
        ...


@dataclass(frozen=True)
class OpenGym:
    """A gym that is up."""

    head_url: str
    token: str
    """For the head server's routes."""
    state_dir: Path
    runs: HeadRuns
    died: "asyncio.Future[str]"
    """Done, with the reason, when the gym ended by itself."""


@asynccontextmanager
async def open_gym(checked: "CheckedConfig", *, warmup: "Warmup") -> AsyncIterator[OpenGym]:
    """All servers up and ready inside, nothing of them left after. Raises ConfigError, EpisodeError."""
    from gym_core.client import GymClient
    from gym_core.launch.runner import running_gym

    async with AsyncExitStack() as stack:
        try:
            gym = await stack.enter_async_context(running_gym(checked, warmup=warmup))
        except ConnectionError as cause:
            raise EpisodeError(
                f"the servers could not be started: {cause}; see the logs in {warmup.state_dir}"
            ) from cause
        yield OpenGym(gym.head_url, gym.token, gym.state_dir, GymClient.over(gym.client), gym.died)
