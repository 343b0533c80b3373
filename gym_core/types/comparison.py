"""Two runs over the same tasks, side by side: what `gym eval compare --json` prints. A difference is always B - A."""

from enum import StrEnum
from typing import Literal

from gym_core.types.metrics import Estimate
from gym_core.types.wire import Wire


class PairedDifference(Wire):
    """Over the tasks that both runs measured; each task counts once, by the mean of its repeats."""

    tasks: int
    mean_a: float | None = None
    mean_b: float | None = None
    difference: float | None = None
    """B - A; None, like the means, when no task was measured in both."""
    ci_low_95: float | None = None
    ci_high_95: float | None = None
    """Paired t interval, clustered by task; None with fewer than two tasks."""


class PairedTestMethod(StrEnum):
    MCNEMAR = "exact_mcnemar"
    """One repeat on either side, each right or wrong."""
    SIGN_FLIPS = "exact_sign_flips"
    """All ways to swap A and B within tasks."""
    SAMPLED_SIGN_FLIPS = "sampled_sign_flips"
    """So many random ones of them."""


class PairedTest(Wire):
    """Whether the difference could be chance, two-sided."""

    method: PairedTestMethod
    p_value: float
    gained: int
    """Tasks that B does better at."""
    lost: int
    """Tasks that A does better at."""
    resamples: int | None = None
    seed: int | None = None
    """Both of random flips alone."""


class Pairing(Wire):
    """Which tasks of A belong to which of B. Counts of tasks, unless they say rollouts."""

    paired: int
    by_content: int
    """Same prompt, pictures, settings and answer key."""
    by_row_id: int
    """Same id of the dataset's row and same question and key, while prompt, pictures or settings differ."""
    changed: int
    """Same id of the row, but another question or key: not paired, and among those of one run only."""
    only_in_a: int
    only_in_b: int
    measured: int
    """Paired, and measured in both: the tasks of every difference."""
    unmeasured_in_a: int
    """Paired, with every repeat of A masked or missing."""
    unmeasured_in_b: int
    masked_rollouts_a: int
    """Of paired tasks."""
    masked_rollouts_b: int
    missing_rollouts_a: int | None
    """None of a run whose inputs are not there: nobody knows what was planned."""
    missing_rollouts_b: int | None
    uneven: int
    """Measured, but not equally often."""


class RunSide(Wire):
    """One of the two runs as a whole."""

    path: str
    run_hash: str | None
    """None without a manifest."""
    model: str | None
    """As the endpoint names it."""
    reward: Estimate
    """Over all its own rows, paired or not."""
    torn_bytes: int
    """Of a last line that was cut off and is not read."""
    address: str
    """Of the run within the page of `gym view`."""


class FlipSide(Wire):
    """One run's say on a task. The rollout is one that shows it."""

    rollout_id: str
    address: str
    """Of that rollout within the page of `gym view`."""
    answer: str | None
    right: int
    measured: int
    """Repeats."""


class FlippedTask(Wire):
    """Mostly right in one run (more than half of the repeats' reward) and not in the other."""

    task: str
    """"taskset/id"."""
    category: str
    subtype: str
    direction: Literal["gained", "lost"]
    """Gained: B has it right."""
    a: FlipSide
    b: FlipSide


class Topic(StrEnum):
    DATA = "data"
    PROMPT = "prompt"
    JUDGE = "judge"
    SANDBOX = "sandbox"
    HARNESS = "harness"
    SAMPLING = "sampling"
    SERVERS = "servers"
    """Others than policy, judge, harness and grader."""
    GYM = "gym"
    MANIFEST = "manifest"
    POLICY = "policy"
    """What two runs usually differ in on purpose; no warning."""


class SetupDifference(Wire):
    topic: Topic
    what: str
    """For people: what it is in A, and what in B."""

    @property
    def is_warning(self) -> bool:
        return self.topic is not Topic.POLICY


class Comparison(Wire):
    a: RunSide
    b: RunSide
    pairing: Pairing
    overall: PairedDifference
    test: PairedTest | None
    """None when no task was measured in both."""
    by_category: dict[str, PairedDifference]
    by_subtype: dict[str, PairedDifference]
    """Keyed "category/subtype"."""
    flipped: list[FlippedTask]
    setup: list[SetupDifference]
    """In what else the runs differ."""
