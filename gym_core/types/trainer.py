"""What a trainer asks of POST /v1/rollouts, and the lines that it gets back, one JSON object each."""

from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from gym_core.errors import FailureKind
from gym_core.types.metrics import SequenceReport
from gym_core.types.run import MAX_TASKS
from gym_core.types.sample import TrainingSample
from gym_core.types.session import Sampling
from gym_core.types.wire import BulkyWire, JsonObject, WholeNumber, Wire, whole

MAX_ROWS = 4096
MAX_ROLLOUTS = 100_000
"""Of one request: prompts times repeats."""
MAX_REPEATS = 1024
MAX_PARALLEL = 4096

EndReason = Literal["completed"] | FailureKind
"""How an episode ended: with an answer that was graded, or by that failure."""

PYVISION_KEPT: tuple[EndReason, ...] = (
    "completed",
    FailureKind.AGENT_TIMEOUT,
    FailureKind.NO_FINAL_ANSWER,
    FailureKind.AGENT_RUN_ERROR,
)
"""DONE, EXCEED_MAX_TURNS (here a time limit bounds the turns) and ERROR_IN_ACTION; not OVER_LENGTH."""


class KeepAll(Wire):
    """Every prompt is played once."""

    method: Literal["all"] = "all"


class DynamicSampling(Wire):
    """DAPO's: prompts are played until so many groups are neither all right nor all wrong, by the environment's own
    reward, without shaping or a tool bonus. At most that many are open at a time, so that none is played for nothing
    but its own lack of variance."""

    method: Literal["dynamic"] = "dynamic"
    groups: Annotated[int, whole(1, MAX_ROWS)]
    max_prompts: Annotated[int, whole(1)] | None = None
    """Budget; None means every prompt there is."""


class Oversampling(Wire):
    """PyVision-RL's oversampling, filtering, ranking.

    Rounds of ceil(factor * prompts) prompts with `num_repeats` rollouts each; groups with a standard deviation of 0 and
    broken rollouts are dropped; rounds repeat until prompts * num_repeats rollouts are there; groups are ranked by
    their standard deviation, highest first, and the first prompts * num_repeats rollouts are kept.
    """

    method: Literal["oversample"] = "oversample"
    prompts: Annotated[int, whole(1, MAX_ROWS)]
    """B, those of a batch."""
    factor: float = Field(default=2.0, ge=1, le=64)
    """alpha"""
    max_prompts: Annotated[int, whole(1)] | None = None
    """Budget; None means every prompt there is."""
    needs_image: bool = True
    """A rollout whose policy saw no picture is broken."""
    max_tokens: Annotated[int, whole(1)] = 128 * 1024
    """A longer rollout, prompt included, is broken."""
    kept_end_reasons: tuple[EndReason, ...] = PYVISION_KEPT
    """Rollouts that ended in another way are broken. Masked ones are in any case."""


Selection = Annotated[KeepAll | DynamicSampling | Oversampling, Field(discriminator="method")]


class GroupOptions(Wire):
    """What is made of the `num_repeats` rollouts of one prompt together."""

    advantage: Literal["centered", "normalized"] = "centered"
    """reward - mean of the group, or that divided by (standard deviation + 1e-6), the population's."""
    drop_zero_variance: bool = False
    """Groups whose rewards are all equal carry no gradient. The other selections than "all" drop them anyway."""
    tool_bonus: float = Field(default=0.0, ge=0, le=10)
    """PyVision-RL's accumulative tool reward: with a reward of 1, so much is added for each tool call that ran (there
    0.1). Not where the environment pays for tools itself, by a shaping term `tool_use`."""
    no_tool_weight: float | None = Field(default=None, ge=0, le=1)
    """`weight` of the samples of a rollout in which no tool call ran."""
    selection: Selection = KeepAll()


class RolloutsRequest(BulkyWire):
    """Body of POST /v1/rollouts: which prompts, how often, how sampled, and what comes back of them."""

    environment: str | None = None
    """Name of the environment; None means the only one there is, or the only one with a dataset of the split."""
    rows: list[JsonObject] | None = Field(default=None, min_length=1, max_length=MAX_ROWS)
    """Flat rows, pictures as data URLs; None takes the dataset of `split`."""
    split: str = "train"
    start: Annotated[int, whole(0, MAX_TASKS)] = 0
    """First task of the dataset, from 0."""
    limit: Annotated[int, whole(1, MAX_TASKS)] | None = None
    """So many tasks of it."""
    num_repeats: Annotated[int, whole(1, MAX_REPEATS)] = 1
    """Rollouts a prompt: the size of a group."""
    sampling: Sampling = Sampling()
    """Over what a row or the configuration says."""

    num_samples_in_parallel: Annotated[int, whole(1, MAX_PARALLEL)] = 8
    max_rollout_attempts: Annotated[int, whole(1, 100)] = 3
    """Episodes a rollout may take when ours is the fault."""
    retry_budget_fraction: float = Field(default=0.2, ge=0, le=100)
    """Retries of the whole request, as a share of its rollouts (at least 10)."""
    time_limit_s: float | None = Field(default=None, gt=0)
    """When it is over, what still runs is cancelled, and the stream ends with what is there."""

    samples: bool = True
    """False leaves the training samples out."""
    require_token_ids: bool = True
    """Refuse, before anything is played, when samples are asked for and the endpoint gives no token ids."""
    branches: Literal["main", "all"] = "main"
    images: Literal["reference", "inline"] = "reference"
    """"reference": by hash, for GET /v1/assets/{sha256}; "inline": as data URLs in the samples, too."""
    include_row: bool = True
    group: GroupOptions | None = None
    """With it, lines come when their group is complete, and carry an advantage."""
    max_staleness: WholeNumber | None = None
    """Samples whose oldest policy version lags the current one by more are masked as `stale`; while one of the two is
    not known, as `policy_version_unknown`."""
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=200)
    """As the header Idempotency-Key. The same request with the same key replays what is finished and goes on."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.rows is not None and (self.start or self.limit is not None):
            raise ValueError("start and limit are of a dataset, not of rows")
        if self.rows is not None and len(self.rows) * self.num_repeats > MAX_ROLLOUTS:
            raise ValueError(f"{len(self.rows)} rows x {self.num_repeats} repeats: more than {MAX_ROLLOUTS} rollouts")
        if self.group is not None and self.num_repeats < 2:
            raise ValueError("group: a group is of at least 2 rollouts: set num_repeats")
        return self


class RolloutLine(BulkyWire):
    """One finished rollout, masked or not."""

    type: Literal["rollout"] = "rollout"
    task_index: int
    """Of the row in the request, or of the task in its dataset."""
    repeat: int
    advantage_group: str
    """The task's content hash: equal for the rollouts of one prompt."""
    end_reason: EndReason
    reward: float | None
    """With the environment's shaping, and the tool bonus where one was asked for; null exactly when masked."""
    reward_components: dict[str, float] = {}
    """They sum up to `reward`."""
    advantage: float | None = None
    """Null without groups, for a masked, stale or dropped rollout, and in a group of fewer than two measured ones."""
    tool_calls: int = 0
    """That ran: without calls of tools that there are not."""
    images: int = 0
    """That the policy saw."""
    dropped: str | None = None
    """Why it is not in the batch: its samples are left out then. One of the words of `GroupLine.reason`, or "broken:"
    and what it is: where token ids are required, a rollout of a group without a sample is broken."""
    unmeasured: str | None = None
    """With a `group`: why its reward is in no mean: "masked" (`end_reason` says of what), or the `mask_reason` of a
    sample of it, "stale", "policy_version_unknown" or "no_group_rewards"; null for a measured one."""
    row: JsonObject | None = None
    """As a line of a run's output file (docs/results.md); its reward is the environment's own."""
    samples: list[TrainingSample] = []
    no_samples: str | None = None
    """Why it has none at all, such as "no_token_ids"; null when there were some, and where none were asked for."""


class GroupStatistics(Wire):
    """Over the measured rollouts of a group: masked and stale ones are in no mean."""

    rollouts: int
    measured: int
    mean: float | None = None
    """None when nothing was measured."""
    std: float | None = None
    """Of the population: divided by n, not n - 1."""
    min: float | None = None
    max: float | None = None


class GroupLine(Wire):
    """After the rollouts of a group."""

    type: Literal["group"] = "group"
    task_index: int
    advantage_group: str
    statistics: GroupStatistics
    kept: int
    """Rollouts of it in the batch; 0 where nothing was measured, though samples that are masked were sent."""
    reason: str | None = None
    """Why none is, or why there are no advantages: "zero_variance", "too_few_measured" (fewer than 2), "broken"
    (every rollout is), "ranked_out", "incomplete" (the time was up); null for an ordinary group."""
    unmeasured: dict[str, int] = {}
    """`RolloutLine.unmeasured` to the number of its rollouts."""
    no_group_rewards: str | None = Field(default=None, max_length=1000)
    """Why the environment, which rewards whole groups, did not reward this one, for people; null where it did, where it
    was not asked (`reason` is "incomplete" then), and for any other environment."""


class AliveLine(Wire):
    """Nothing was ready for a while, and the request goes on."""

    type: Literal["alive"] = "alive"
    running: int
    finished: int


class EndLine(Wire):
    """The last line of a request that ended as asked."""

    type: Literal["end"] = "end"
    prompts: int
    """That were started."""
    rollouts: int
    """Finished ones, replayed ones included."""
    replayed: int = 0
    """Taken from an earlier stream of the same idempotency key."""
    measured: int
    masked: int
    dropped: int = 0
    unfinished: int = 0
    """Of the prompts that were started: rollouts cancelled at the time limit, or not begun any more."""
    retries: int = 0
    groups: dict[str, int] = {}
    """"kept", and each reason why not, to the number of groups."""
    stopped_by: Literal["enough", "prompts", "budget", "time"]
    """"enough": the selection has its groups; "prompts": every prompt was played; "budget": `max_prompts` was."""
    samples: int = 0
    trainable_tokens: int = 0
    """Of the samples that were sent and are not masked."""
    without_samples: dict[str, int] = {}
    """Where samples were asked for: rollouts that had none, by why (`RolloutLine.no_samples`)."""
    mean_reward: float | None = None
    """Of the environment, over all measured rollouts."""
    failures: dict[str, int] = {}
    sequences: SequenceReport | None = None
    """None when no answered call was captured."""


class ErrorLine(Wire):
    """The last line of a request that could not go on."""

    type: Literal["error"] = "error"
    kind: str
    """A failure kind, "bad_request", "breakdown" (everything is masked) or "superseded" (another stream took over)."""
    message: str


TrainerLine = Annotated[
    RolloutLine | GroupLine | AliveLine | EndLine | ErrorLine,
    Field(discriminator="type"),
]

TRAINER_LINE: TypeAdapter[RolloutLine | GroupLine | AliveLine | EndLine | ErrorLine] = TypeAdapter(TrainerLine)
"""Reads any line."""
