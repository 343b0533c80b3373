"""Opening and closing the sessions of an episode: requests and replies of the resources, agent and model servers."""

from pydantic import Field

from gym_core.types.ids import EpisodeId, SafeId, TaskId
from gym_core.types.responses import MAX_OUTPUT_TOKENS, MAX_TEMPERATURE
from gym_core.types.tool import ToolAccess
from gym_core.types.wire import JsonObject, Wire


class SandboxEnforcement(Wire):
    """What a provider really enforced for one sandbox; stored in the row, never assumed."""

    provider: str
    mechanism: str
    """For instance "bubblewrap 0.8.0". A provider may use words of its own here and below, where none fits: its page
    in the docs says what they mean."""
    network: str
    """What a command can reach: "none"; "exact_port", one port of one address; "host", every port of one address; or
    "port_any_host", one port of every address."""
    memory: str
    """What ends a process that takes too much: "cgroup_v1", "cgroup_v2" or "container" (a control group, which the
    provider's service keeps), "watchdog" (measured now and then), or "none"."""
    seccomp: bool
    """Whether system calls are filtered."""
    user: str
    """What a command is to the host's kernel: "uid_per_sandbox", "shared_uid" (all sandboxes are one user), or
    "container_uid" (a user other than root of a container; which one outside is the service's choice)."""

    mounts: list[str] = []
    """Paths inside at which a folder of the host, named by the configuration, was seen; read-only, as seen too."""


class SandboxLease(Wire):
    """The right to use one lent sandbox: an address, a scoped token and an end. Never provider credentials."""

    lease_id: SafeId
    url: str
    """Base URL of the lender; the lease's routes are under `{url}/v1/sandboxes/{lease_id}`."""
    token: str
    """Good for this lease alone."""
    expires_at: float
    """Unix time, seconds. A lease is renewed while used and reaped when it is not."""
    workdir: str
    model_url: str | None
    """Base URL (ending in /v1) of the policy model server as seen from inside; None without network."""
    enforced: SandboxEnforcement


class SeedSessionRequest(Wire):
    resources_session_id: SafeId
    """Chosen by the caller, so that a lost reply cannot lose a session."""
    episode_id: EpisodeId
    task_id: TaskId
    task_data: JsonObject


class SeedSessionReply(Wire):
    resources_session_id: SafeId
    resources_tools: ToolAccess | None = None
    """Tools that run in the resources server; None when it has none."""
    sandbox_access: SandboxLease | None = None


class CloseSessionRequest(Wire):
    resources_session_id: SafeId
    episode_id: EpisodeId


class CloseSessionReply(Wire):
    resources_session_id: SafeId


class ModelAccess(Wire):
    """How an agent reaches the policy for one session."""

    base_url: str
    """Ends in /v1; as seen from the agent server's host. Inside a sandbox use `SandboxLease.model_url`."""
    api_key: str
    """Good for one session."""
    context_tokens: int
    max_output_tokens: int


class OpenAgentSessionRequest(Wire):
    agent_session_id: SafeId
    episode_id: EpisodeId
    task_id: TaskId
    model: ModelAccess
    sandbox_access: SandboxLease | None = None
    tool_accesses: list[ToolAccess] = []


class OpenAgentSessionReply(Wire):
    agent_session_id: SafeId


class CloseAgentSessionRequest(Wire):
    agent_session_id: SafeId
    episode_id: EpisodeId


UNKNOWN_TOOL = "unknown_tool"
"""Counts the calls of no tool: a name that there is not, or a call that cannot be read."""


class AgentReport(Wire):
    """What an agent server saw of one session, for the record and the page; numbers, no content."""

    seconds: float = 0.0
    tool_calls: dict[str, int] = {}
    """Tool name to count, `UNKNOWN_TOOL` among them."""
    images_read: int = 0
    ending: str | None = None
    """How the loop of a harness with several endings ended, in its own word, such as "finished" or "max_turns"."""
    notes: list[str] = []
    """Stable phrases for things someone should look at, such as "events_cut" or "restarted_at_start"."""
    versions: dict[str, str] = {}

    @property
    def calls_run(self) -> int:
        """Calls that a tool was given to run."""
        return sum(count for name, count in self.tool_calls.items() if name != UNKNOWN_TOOL)


class CloseAgentSessionReply(Wire):
    agent_session_id: SafeId
    agent_observations: AgentReport


class Sampling(Wire):
    """How the policy samples; None leaves it to the endpoint."""

    temperature: float | None = Field(default=None, ge=0, le=MAX_TEMPERATURE)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_output_tokens: int | None = Field(default=None, gt=0, le=MAX_OUTPUT_TOKENS)
    """Of one call."""


class CaptureSessionRequest(Wire):
    """Asks the policy model server for a session key."""

    session_id: SafeId
    episode_id: EpisodeId | None = None
    """The episode that the session is of; None for callers that play none."""
    captures_dir: str | None = None
    """Absolute folder for this session's call records; None keeps them under the server's own state folder."""
    assets_dir: str | None = None
    """Absolute folder of images by SHA-256; None as above."""
    sampling: Sampling = Sampling()
    """Holds for every call of the session, whatever the harness sends: harnesses cannot be told."""


class CaptureSessionReply(Wire):
    session_id: SafeId
    api_key: str
    """Good for this session's calls and nothing else."""
    context_tokens: int
    max_output_tokens: int


class CaptureSummary(Wire):
    """What the policy model server saw of one session."""

    session_id: SafeId
    calls: int = 0
    failed_calls: int = 0
    last_failure: str | None = None
    """A `FailureKind` word when the endpoint, not the model, ended the last call."""
    last_failure_message: str | None = None
    first_call_at: float | None = None
    """Unix time, seconds; None until the first request of the session arrived."""
    last_finish_reason: str | None = None
    tool_calls: int = 0
    """In the model's answers. From the first one on, what a sandbox says of itself may be the model's work."""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    """Of them, those that the endpoint says it had cached."""
    output_tokens: int = 0
    uncounted_calls: int = 0
    """Answered calls whose tokens the endpoint did not count."""
    model_seconds: float = 0.0
    """Of the calls that were answered, without their time in our own queue."""
    queued_s: float = 0.0
    """Time in which a call stood in the model server's own queue, pauses of the policy included; once for all calls
    that stood there together."""
    images: list[str] = []
    """SHA-256 of each image the model received, in order of first appearance."""
    has_token_ids: bool = False
    """Every answered call's ids, of prompt and answer, are complete."""
    has_logprobs: bool = False
    """Their log-probabilities too: each answered call is complete."""
    capture_complete: bool = True
    """False when a record of a call could not be kept; the sample is then not for training."""
    notes: dict[str, int] = Field(default={})
    """Stable phrase to count, such as "dropped_field:chat_template" or "template_leak"."""
