"""What a sandbox is: two protocols and the values they take. A provider's own object, the lender's routes and the
borrower's client are three faces of it and cannot be told apart by an agent.
"""

from collections.abc import Callable
from typing import Annotated, Literal, Protocol

from pydantic import Field

from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement
from gym_core.types.wire import Wire

DEFAULT_WORKDIR = "/workspace"


class NoNetwork(Wire):
    kind: Literal["none"] = "none"


class ModelOnly(Wire):
    """One address and port of one server is reachable, nothing else: no DNS, no metadata address, no other port."""

    kind: Literal["model_only"] = "model_only"
    host: str
    """Literal IP address of the policy model server, as seen from the host."""
    port: int = Field(gt=0, lt=65536)


NetworkPolicy = Annotated[NoNetwork | ModelOnly, Field(discriminator="kind")]


class SandboxResources(Wire):
    cpu: float = Field(default=1.0, gt=0)
    """Cores."""
    memory_mib: int = Field(default=2048, ge=64)
    """Counts processes and the files of the workspace together."""
    pids: int = Field(default=512, ge=16)
    workspace_mib: int = Field(default=1024, ge=8)
    """Size of the workspace; writes beyond it fail inside with "no space left"."""


class Mount(Wire):
    """A read-only folder of the host, seen inside."""

    source: str
    target: str


class SandboxSpec(Wire):
    image: str | None = None
    """Provider's own meaning; the embedded provider runs the host's /usr and the toolkit and takes None."""
    ttl_s: float = Field(default=7200.0, gt=0)
    """The sandbox ends by itself after this long without renewal."""
    resources: SandboxResources = SandboxResources()
    workdir: str = DEFAULT_WORKDIR
    env: dict[str, str] = {}
    """Environment of every command; never secrets."""
    network: NetworkPolicy = NoNetwork()
    mounts: list[Mount] = []
    metadata: dict[str, str] = {}
    """Who owns it: run, episode. What a janitor and a list show."""


class Launch(Wire):
    """One command in a sandbox."""

    argv: list[str] = Field(min_length=1)
    cwd: str | None = None
    """None means the workspace."""
    env: dict[str, str] = {}
    """Added to the sandbox's own."""
    timeout_s: float = Field(default=60.0, gt=0)
    """After it the command's whole process group is killed and the result says `timed_out`."""
    output_cap_bytes: int = Field(default=1 << 20, ge=0)
    """Per stream; what comes after it is read and dropped, and the result says `truncated`."""


class ExecResult(Wire):
    exit_code: int | None
    """None when a signal or the time-out ended it. None is never success."""
    signal: int | None = None
    timed_out: bool = False
    truncated: bool = False
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


OnOutput = Callable[[Literal["stdout", "stderr"], bytes], None]


class Sandbox(Protocol):
    """One sandbox. Every method raises `SandboxLost` once it is gone, `SandboxError` for trouble that is not the
    command's, and is safe to cancel. Paths are absolute, POSIX, inside the sandbox.
    """

    @property
    def id(self) -> str: ...

    @property
    def workdir(self) -> str: ...

    @property
    def model_url(self) -> str | None:
        """Base URL (ending in /v1) of the model server seen from inside; None without network."""
        ...

    @property
    def enforced(self) -> SandboxEnforcement: ...

    async def exec(self, launch: Launch, on_output: OnOutput | None = None) -> ExecResult:
        """Run a command to its end. A missing program, a non-zero exit and a time-out are results, not errors.

        A background process that keeps the pipes open does not hold the call: output is collected until shortly
        after the command itself ended. Cancelling kills the command's process group.
        """
        ...

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Create or replace a file, atomically, making its folders. The path is resolved inside the sandbox, so no
        link can lead out of it. Raises OSError subclasses for what the file system refuses (no space, permission).
        """
        ...

    async def read(self, path: str, max_bytes: int = 64 << 20) -> bytes:
        """A regular file's bytes. Raises FileNotFoundError; ValueError when it is longer than `max_bytes`, or is not
        a regular file (never blocks on a fifo).
        """
        ...

    async def renew(self) -> None:
        """Start the time to live anew. Every other use does so too, except `is_alive`."""
        ...

    async def is_alive(self) -> bool: ...

    async def close(self) -> None:
        """Destroy it. Closing twice, or a lost sandbox, is fine. Survives cancellation: when this returns or is
        cancelled, the sandbox ends."""
        ...


class SandboxInfo(Wire):
    """One sandbox that a provider can see, whoever made it."""

    sandbox_id: str
    provider: str
    owner: str
    """Who made it, as `owner.Owner` writes it: host, process and start time; "" where the provider cannot tell."""
    is_orphan: bool
    """Nobody will close it: its owner is known to be dead, or its time is over. What `sweep` removes."""
    created_at: float | None
    """Unix time, seconds; None where the provider does not keep it."""
    expires_at: float | None
    """Unix time, seconds, unless it is renewed; None where only its owner knows."""
    metadata: dict[str, str]


class SweepReport(Wire):
    removed: list[str] = []
    """Ids of sandboxes, or names of leftovers, that no living owner had."""
    kept: int = 0


class SandboxProvider(Protocol):
    """Makes sandboxes of one kind."""

    name: str

    async def check(self) -> SandboxEnforcement:
        """Make and use a throw-away sandbox. Raises SandboxUnavailable saying why and how to fix it."""
        ...

    async def create(self, sandbox_id: SafeId, spec: SandboxSpec) -> Sandbox:
        """A sandbox that is ready to use. The id is the caller's, so that a lost reply loses nothing.

        Raises SandboxUnavailable when isolation or resources cannot be had; nothing is left behind then.
        """
        ...

    async def list(self) -> list[SandboxInfo]:
        """Every sandbox of this kind that can be seen from here: our own, other owners', and leftovers. Makes none.

        Raises SandboxUnavailable when the provider's service does not answer.
        """
        ...

    async def sweep(self) -> SweepReport:
        """Remove what dead owners left: processes, cgroups, folders. Safe beside living providers elsewhere."""
        ...

    async def aclose(self) -> None:
        """Close every sandbox this provider made."""
        ...
