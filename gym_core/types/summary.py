"""What `gym eval summary --json` prints: saved runs in numbers."""

from gym_core.types.comparison import Comparison
from gym_core.types.metrics import MetricsReport
from gym_core.types.score_table import ScoreTable
from gym_core.types.wire import Wire


class RunSummary(Wire):
    path: str
    model: str | None
    """As the endpoint names it; None when the run's manifest does not say."""
    run_hash: str | None
    torn_bytes: int
    """Of a last line that was cut off and is not read."""
    metrics: MetricsReport


class Summary(Wire):
    runs: list[RunSummary]
    table: ScoreTable | None = None
    """When one was asked for."""
    against_baseline: list[Comparison] = []
    """The baseline as A, each run as B; when there is one."""
