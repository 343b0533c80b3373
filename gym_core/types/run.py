"""A run as trainers and the command line ask for it and watch it."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from gym_core.types.cost import RestEstimate, Spend
from gym_core.types.ids import SafeId
from gym_core.types.metrics import MetricsReport
from gym_core.types.wire import Wire

MAX_TASKS = 10**9
"""No dataset has more."""


class Rejudge(Wire):
    """Grade the answers of a saved run again. Nothing is played, and its files are not touched."""

    kind: Literal["rejudge"] = "rejudge"
    path: str
    """`X.jsonl` of the saved run."""
    only_masked: bool = False
    """Only rows that lack nothing but their grade; the verdicts of the others are taken over."""


class Replay(Wire):
    """Play the tasks of a saved run again, for a policy server that answers from its recorded calls."""

    kind: Literal["replay"] = "replay"
    path: str
    """As above."""


SavedRunUse = Annotated[Rejudge | Replay, Field(discriminator="kind")]


class RunOptions(Wire):
    """One evaluation. The keys of the command line's overrides, word for word."""

    environment: str | None = None
    """Name of the environment server instance; None means the only one with a dataset of this split."""
    output_jsonl_fpath: str
    split: str = "benchmark"
    """Datasets of this `type` are run."""
    limit: int | None = Field(default=None, gt=0, le=MAX_TASKS)
    """Only the first so many tasks."""
    num_repeats: int | None = Field(default=None, gt=0)
    """Rollouts a task; None means the dataset's own number."""
    num_samples_in_parallel: int = Field(default=8, gt=0)
    """Rollouts in flight (`--concurrency`)."""
    pilot: int | None = Field(default=None, gt=0)
    """Play so many rollouts of those that are left, spread over the tasks, and estimate the rest."""
    resume: bool = True
    """False refuses a path that already holds rollouts; nothing is ever deleted."""
    max_rollout_attempts: int = Field(default=3, gt=0)
    """Episodes a rollout may take when ours is the fault."""
    retry_budget_fraction: float = Field(default=0.2, ge=0)
    """Retries of the whole run, as a share of its rollouts (at least 10); past it a failure is masked at once."""
    max_masked_fraction: float = Field(default=0.05, ge=0, le=1)
    """Above this share of masked rollouts the run ends with exit code 1."""
    retry_masked: bool = True
    """A resume tries masked rollouts of ours again; judge failures stay (re-judge them instead)."""
    saved_run: SavedRunUse | None = None
    """Work on the rollouts of a saved run; None plays the dataset."""


class ActiveRollout(Wire):
    """A rollout that is being played."""

    rollout_id: SafeId
    task_index: int
    task_id: str
    repeat: int
    attempt: int
    stage: str
    """"plan", "seed" (a sandbox is made), "open", "respond" (the agent plays) or "verify" (it is graded)."""
    stage_s: float
    """In this stage so far."""
    total_s: float
    """In this attempt so far."""
    calls: int | None = None
    """To the model so far, as of some seconds ago; known of the slowest few alone."""


class RunState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RunProgress(Wire):
    """A snapshot of a run; the data of each `progress` event."""

    run_id: SafeId
    state: RunState
    total: int = 0
    done: int = 0
    """Finished rollouts, those of earlier runs into the same file included."""
    resumed: int = 0
    """Of them, finished before this run started."""
    running: int = 0
    slots: int = 0
    """As many may run at once."""
    active: list[ActiveRollout] = []
    """Of those that run, the longest played first, at most 32."""
    masked: int = 0
    retries: int = 0
    mean_reward: float | None = None
    ci_low_95: float | None = None
    ci_high_95: float | None = None
    elapsed_s: float = 0.0
    rollouts_per_s: float = 0.0
    remaining_s: float | None = None
    spend: Spend | None = None
    """Of this run and those that it resumes."""
    failures: dict[str, int] = {}
    message: str = ""
    """Why a run failed or was cancelled."""
    is_refused: bool = False
    """The run failed because what was asked for cannot be done as asked: the caller's mistake, nothing was played."""


class RunResult(Wire):
    """How a run ended; the data of the last (`end`) event and of GET /v1/runs/{id}."""

    progress: RunProgress
    metrics: MetricsReport | None = None
    estimate: RestEstimate | None = None
    """Of what is left, at the end of a pilot."""
    files: dict[str, str] = {}
    """What it is ("rollouts", "failures", "metrics", "manifest", "assets", "captures") to path."""


class RunAccepted(Wire):
    run_id: SafeId
