"""A sandbox in memory, for tests of everything that uses one: files are a dictionary, commands do what the test says.

provider = FakeProvider()
sandbox = await provider.create("box-1", SandboxSpec())
sandbox.on_exec(lambda launch, sandbox: ExecResult(exit_code=0, stdout=b"hello"))
"""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from gym_core.errors import SandboxError, SandboxLost, SandboxUnavailable
from gym_core.sandbox.contract import ExecResult, Launch, ModelOnly, OnOutput, SandboxInfo, SandboxSpec, SweepReport
from gym_core.sandbox.owner import Owner
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement

OnExec = Callable[[Launch, "FakeSandbox"], ExecResult | Awaitable[ExecResult]]


def succeed(launch: Launch, sandbox: "FakeSandbox") -> ExecResult:
    """What a fake does with a command until the test programs it."""
    return ExecResult(exit_code=0)


class FakeSandbox:
    """Keeps what was asked of it in `launches`, and what was written in `files`, `modes`."""

    def __init__(self, sandbox_id: SafeId, spec: SandboxSpec) -> None:
        self.spec = spec
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.launches: list[Launch] = []
        self.cancelled: list[Launch] = []
        """Commands whose call was cancelled while they ran."""
        self.renewals = 0
        self.closed = False
        self._id = sandbox_id
        self._on_exec: OnExec = succeed
        self._dead = asyncio.Event()

    @property
    def id(self) -> str:
        return self._id

    @property
    def workdir(self) -> str:
        return self.spec.workdir

    @property
    def model_url(self) -> str | None:
        network = self.spec.network
        return f"http://127.0.0.1:{network.port}/v1" if isinstance(network, ModelOnly) else None

    @property
    def enforced(self) -> SandboxEnforcement:
        network = "exact_port" if isinstance(self.spec.network, ModelOnly) else "none"
        return SandboxEnforcement(
            provider="fake", mechanism="memory", network=network, memory="none", seccomp=False, user="shared_uid"
        )

    def on_exec(self, behaviour: OnExec) -> None:
        """What commands do from now on: return a result, await something first (slow), or raise."""
        self._on_exec = behaviour

    def die(self) -> None:
        """The sandbox is gone, as after a kill from outside: running and later calls raise SandboxLost."""
        self._dead.set()

    async def exec(self, launch: Launch, on_output: OnOutput | None = None) -> ExecResult:
        self._must_live()
        self.launches.append(launch)
        result = await self._until_dead(launch)
        stdout, stderr = (b[: launch.output_cap_bytes] for b in (result.stdout, result.stderr))
        truncated = result.truncated or len(stdout) < len(result.stdout) or len(stderr) < len(result.stderr)
        if on_output and stdout:
            on_output("stdout", stdout)
        if on_output and stderr:
            on_output("stderr", stderr)
        return result.model_copy(update={"stdout": stdout, "stderr": stderr, "truncated": truncated})

    async def _until_dead(self, launch: Launch) -> ExecResult:
        outcome = self._on_exec(launch, self)
        if not isawaitable(outcome):
            return outcome
        running = asyncio.ensure_future(outcome)
        dying = asyncio.ensure_future(self._dead.wait())
        try:
            await asyncio.wait({running, dying}, timeout=launch.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            self._must_live()
            return ExecResult(exit_code=None, signal=9, timed_out=True)
        except asyncio.CancelledError:
            self.cancelled.append(launch)
            raise
        finally:
            running.cancel()
            dying.cancel()
            await asyncio.gather(running, dying, return_exceptions=True)

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self._must_live()
        _must_be_absolute(path)
        self.files[path] = content
        self.modes[path] = mode

    async def read(self, path: str, max_bytes: int = 64 << 20) -> bytes:
        self._must_live()
        _must_be_absolute(path)
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        content = self.files[path]
        if len(content) > max_bytes:
            raise ValueError(f"{path!r} is longer than {max_bytes} bytes")
        return content

    async def renew(self) -> None:
        self._must_live()
        self.renewals += 1

    async def is_alive(self) -> bool:
        return not (self.closed or self._dead.is_set())

    async def close(self) -> None:
        self.closed = True
        self._dead.set()

    def _must_live(self) -> None:
        if self.closed or self._dead.is_set():
            raise SandboxLost(f"sandbox {self._id!r} is gone")


def _must_be_absolute(path: str) -> None:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not an absolute path")


class FakeProvider:
    """Makes fakes and keeps them in `sandboxes`; `on_exec` is what each new one does with commands."""

    name = "fake"

    def __init__(self, on_exec: OnExec = succeed) -> None:
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.orphans: set[str] = set()
        """Ids of those whose owner is dead, as a test says."""
        self._on_exec = on_exec
        self._refusal: str | None = None

    def refuse(self, reason: str | None) -> None:
        """From now on `check` and `create` raise SandboxUnavailable with this reason; None ends that."""
        self._refusal = reason

    async def check(self) -> SandboxEnforcement:
        self._must_be_available()
        return FakeSandbox("check", SandboxSpec()).enforced

    async def create(self, sandbox_id: SafeId, spec: SandboxSpec) -> FakeSandbox:
        self._must_be_available()
        known = self.sandboxes.get(sandbox_id)
        if known and not known.closed:
            raise SandboxError(f"a sandbox with the id {sandbox_id!r} is alive")
        sandbox = self.sandboxes[sandbox_id] = FakeSandbox(sandbox_id, spec)
        sandbox.on_exec(self._on_exec)
        return sandbox

    async def list(self) -> list[SandboxInfo]:
        return [
            SandboxInfo(
                sandbox_id=sandbox.id,
                provider=self.name,
                owner="" if sandbox.id in self.orphans else str(Owner.here()),
                is_orphan=sandbox.id in self.orphans,
                created_at=None,
                expires_at=None,
                metadata=sandbox.spec.metadata,
            )
            for sandbox in self.sandboxes.values()
            if not sandbox.closed
        ]

    async def sweep(self) -> SweepReport:
        found = await self.list()
        orphans = [info.sandbox_id for info in found if info.is_orphan]
        for sandbox_id in orphans:
            await self.sandboxes[sandbox_id].close()
            self.orphans.discard(sandbox_id)
        return SweepReport(removed=orphans, kept=len(found) - len(orphans))

    async def aclose(self) -> None:
        for sandbox in self.sandboxes.values():
            await sandbox.close()

    def _must_be_available(self) -> None:
        if self._refusal is not None:
            raise SandboxUnavailable(self._refusal)
