"""What an experiment tracker is to us: it takes one saved run whole, once, and says where it can be seen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Protocol

from gym_core.errors import ConfigError
from gym_core.export.rows import RowTable

ConfigValue = str | int | float | bool


class TrackerName(StrEnum):
    WANDB = "wandb"
    MLFLOW = "mlflow"


@dataclass(frozen=True)
class TrackedRun:
    """A saved run as trackers take it: names and numbers. No paths of this machine, no command line, no secrets."""

    project: str
    id: str
    """The same each time that this run is logged, so that a tracker updates it rather than adding another one."""
    name: str
    run_hash: str
    config: Mapping[str, ConfigValue]
    """What ran, keys dotted."""
    metrics: Mapping[str, float]
    table: RowTable


class Tracker(Protocol):
    def log(self, run: TrackedRun) -> str:
        """Config, metrics, a table `rollouts`. Where it can be seen, or what to do to see it, in words for people.

        May raise what the tracker's own client raises.
        """
        ...


_ADAPTERS = {
    TrackerName.WANDB: ("gym_core.export.trackers.wandb_tracker", "WandbTracker"),
    TrackerName.MLFLOW: ("gym_core.export.trackers.mlflow_tracker", "MlflowTracker"),
}


def load_tracker(name: TrackerName) -> Tracker:
    """Raises ConfigError when its package is not installed."""
    module, tracker = _ADAPTERS[name]
    try:
        make: Callable[[], Tracker] = getattr(import_module(module), tracker)
        return make()
    except ImportError as error:
        raise ConfigError(
            f"export: --to {name}: its package cannot be imported ({error}); install visual-agent-gym[{name}]"
        ) from error


def log_run(tracker: Tracker, run: TrackedRun) -> str:
    """As the tracker's own. Raises ConfigError whatever the tracker raises: a key, an address, a full disk."""
    try:
        return tracker.log(run)
    except ConfigError:
        raise
    except Exception as error:  # a client of others may raise anything, and nothing is lost by it
        reason = f"{type(error).__name__}: {error}"[:500]
        raise ConfigError(f"export: run {run.name!r} was not logged: {reason}") from error
