"""What the viewer's JSON API says: runs, rows of a run, one rollout. The page and an exported file read the same.

GET routes, all below `/api` with a bearer token; times are Unix seconds, durations seconds, rewards in [0, 1]:

| route | reply |
|---|---|
| `/api/runs` | `RunList` |
| `/api/runs/{run}` | `RunDetail` |
| `/api/runs/{run}/rows?start=N` | `RowsPage`: rows in the order they were written |
| `/api/runs/{run}/rollouts/{rollout}` | `RolloutView`, its first turns |
| `/api/runs/{run}/rollouts/{rollout}/turns?start=N` | `TurnsPage` |
| `/api/runs/{run}/rollouts/{rollout}/calls/{index}` | `CallView`: what the model was sent in that call |
| `/api/runs/{run}/rollouts/{rollout}/texts/{text}?start=N` | `TextSlice`: more of a text that was cut |

The first two and the rollout carry an `ETag`; a request that repeats it in `If-None-Match` gets 304 when nothing
changed. `/images/{key}/{run}/{sha256}`, without a token, is a picture; its URL comes with the reply that names it.
"""

from enum import StrEnum
from typing import Literal

from gym_core.types.metrics import Coverage, Estimate, MetricsReport
from gym_core.types.model_call import CaptureGap
from gym_core.types.sample import BranchLabel, Drift, SequenceSummary
from gym_core.types.session import SandboxEnforcement
from gym_core.types.wire import JsonObject, Wire


class RunState(StrEnum):
    RUNNING = "running"
    """Somebody writes to its file."""
    FINISHED = "finished"
    PARTIAL = "partial"
    """Nobody writes to it, and rollouts that were planned are not in it."""
    EMPTY = "empty"


class RunCard(Wire):
    """A line of the run list."""

    id: str
    """Stable for one path, so that a link to it lives on."""
    name: str
    folder: str
    environment: str
    model: str
    state: RunState
    started_at: float | None
    updated_at: float | None
    reward: Estimate
    coverage: Coverage
    input_tokens: int
    output_tokens: int
    cost: float | None = None
    """Of policy and judge, every attempt included; None when a price that it takes is not configured."""
    currency: str | None = None
    problems: list[str] = []
    """What a reader must know of the files: damaged lines, a torn end, files that are missing."""


class RunList(Wire):
    runs: list[RunCard]
    """The latest first."""


class BrokenAttempt(Wire):
    """A line of the failures file: an episode that broke; its rollout may have been played again."""

    task_hash: str
    repeat: int
    attempt: int
    task_index: int
    failed_at: float
    kind: str
    reason: str
    stage: str


class InFlight(Wire):
    """A session whose model calls are on disk and whose rollout is not finished."""

    rollout: str
    """Its id, good for the routes of a rollout."""
    attempt: int
    last_call_at: float
    capture_bytes: int


class RunDetail(Wire):
    card: RunCard
    generation: int
    """Changes when the file was replaced and rows must be read anew."""
    rows: int
    metrics: MetricsReport
    """Computed from the rows that are there, also while the run goes on."""
    manifest: JsonObject | None
    """`X_run.json` without `identity`; None when it is not there or not readable."""
    identity: JsonObject | None
    attempts: list[BrokenAttempt]
    """The latest ones."""
    attempts_total: int
    attempts_by_kind: dict[str, int]
    in_flight: list[InFlight]


class RolloutRow(Wire):
    """A line of a run's table: small, so that thousands of them travel."""

    id: str
    task: str
    index: int
    repeat: int
    attempts: int
    category: str
    subtype: str
    question: str
    gold: str
    answer: str
    reward: float | None
    failure: str | None
    verdict: str
    turns: int
    tool_calls: int
    images: int
    input_tokens: int
    output_tokens: int
    seconds: float
    model_seconds: float
    finished_at: float
    drifts: int
    picture: str = ""
    """SHA-256 of the first picture that the model received: the puzzle, as a rule; "" for none."""
    flags: list[str]
    """What someone should look at: "capture_incomplete", "drift", or an agent's note."""


class RowsPage(Wire):
    generation: int
    start: int
    total: int
    rows: list[RolloutRow]
    pictures: dict[str, str] = {}
    """SHA-256 to URL of their `picture`s, those that can be shown."""


class Clip(Wire):
    """The beginning of a text."""

    text: str
    length: int
    """Characters of the whole."""
    id: str
    """Good for `/texts/{id}`; "" when `text` is all of it."""


class TextSlice(Wire):
    start: int
    text: str
    length: int


class Picture(Wire):
    sha256: str
    url: str
    """Below this server; `data:` in an exported file; "" for one that cannot be shown, `problem` says why."""
    width: int
    height: int
    bytes: int
    seen: bool | None
    """Whether a model call held it; None when the calls are not known."""
    problem: str = ""


class CallFacts(Wire):
    """One model call in numbers."""

    index: int
    call_id: str
    outcome: str
    branch: BranchLabel | None
    sent_at: float
    started_s: float
    """After the first call of the session was sent."""
    seconds: float
    queued_s: float
    first_byte_s: float | None
    input_tokens: int
    output_tokens: int
    images: int
    images_added: int
    finish_reason: str
    failure: str
    gaps: list[CaptureGap]
    notes: list[str]
    policy_version: int | None
    drift: Drift | None
    tools: list[str]
    """Names of the tools that the answer calls."""


class TextPart(Wire):
    kind: Literal["text", "reasoning"]
    text: Clip


class MessagePart(Wire):
    """What somebody else than the model said in between."""

    kind: Literal["message"] = "message"
    role: str
    text: Clip
    images: list[Picture] = []


class ToolPart(Wire):
    kind: Literal["tool"] = "tool"
    name: str
    call_id: str
    title: str
    """The path it reads, the description of a command; "" when its arguments hold none."""
    command: Clip | None
    """Of a shell call; None for other tools."""
    arguments: Clip
    """JSON text as the model wrote it."""
    status: str
    output: Clip | None
    """None when no output is there."""
    images: list[Picture] = []


Part = TextPart | MessagePart | ToolPart


class Turn(Wire):
    """One answer of the model and what its tools gave back."""

    number: int
    """From 1."""
    call: CallFacts | None
    """None when the capture is not there, or does not hold it."""
    tools_s: float | None
    """From the end of its answer to the next call: its tools, and the harness."""
    parts: list[Part]


class TurnsPage(Wire):
    start: int
    total: int
    turns: list[Turn]


class Prompt(Wire):
    """What the task gave the policy."""

    role: str
    text: Clip
    images: list[Picture]


class Column(Wire):
    name: str
    value: Clip


class Grade(Wire):
    reward: float | None
    components: dict[str, float]
    shaping: dict[str, float]
    """What a trainer's reward has beside `reward`."""
    failure: str | None
    failure_reason: str
    failure_stage: str
    gold: Clip | None
    extracted: Clip | None
    options: list[Clip]
    verdict: str
    reason: Clip | None
    raw_reply: Clip | None
    judge: str
    """Name of the judge's model, "matcher", or "" when nobody was asked."""
    columns: list[Column]
    """The grader's other columns, and the task's own fields."""


class TimeSpan(Wire):
    name: Literal["seed", "open", "model", "queued", "tools", "verify", "other"]
    seconds: float


class CaptureHealth(Wire):
    problem: str
    """Why the calls are not here; "" when they are."""
    complete: bool
    calls: int
    failed_calls: int
    has_token_ids: bool
    has_logprobs: bool
    notes: dict[str, int]
    sequences: SequenceSummary | None
    drifts: list[Drift]
    gaps: dict[str, int]
    last_failure: str = ""


class RolloutView(Wire):
    run: str
    """Name of its run."""
    row: RolloutRow
    state: Literal["finished", "running"]
    """"running": made from the calls that are on disk so far; nothing is graded yet."""
    status: str
    """Of the response: "completed", "incomplete", "failed", or "" when there is none."""
    prompts: list[Prompt]
    turns: TurnsPage
    pictures: list[Picture]
    """Every picture that the model received or that the trajectory holds, once, in order; those of the task first."""
    grade: Grade | None
    times: list[TimeSpan]
    calls: list[CallFacts]
    health: CaptureHealth
    sandbox: SandboxEnforcement | None
    agent_notes: list[str]
    agent_versions: dict[str, str]
    attempts: list[BrokenAttempt]
    """Episodes of this rollout that broke before."""
    previous: str | None
    next: str | None
    """Neighbours in the file."""


class CallMessage(Wire):
    role: str
    text: Clip
    images: list[Picture] = []
    tool_calls: list[ToolPart] = []


class CallView(Wire):
    """A call as it was sent: the ground truth of what the model saw."""

    facts: CallFacts
    messages: list[CallMessage]
    answer: CallMessage | None
    tools: Clip
    """JSON of the tool definitions."""
    sampling: Clip
