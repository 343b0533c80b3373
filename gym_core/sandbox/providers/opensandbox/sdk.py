"""The OpenSandbox SDK, behind few calls: each has a deadline of our own, and every failure is a `ServiceFault`.

The one user of the package `opensandbox`. Its stream of a command's output has no time-out, a lost stream looks like an
end without an exit code, and it reads `OPEN_SANDBOX_*` from the environment where it is not told: all is told here.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version

from opensandbox import Sandbox, SandboxManager
from opensandbox.api.egress import Client as EgressClient
from opensandbox.api.egress.api.policy import get_policy
from opensandbox.api.egress.models.policy_status_response import PolicyStatusResponse
from opensandbox.config import ConnectionConfig
from opensandbox.constants import DEFAULT_EGRESS_PORT
from opensandbox.exceptions import SandboxApiException, SandboxConnectionException
from opensandbox.models.execd import Execution, ExecutionHandlers, ExecutionInit, OutputMessage, RunCommandOpts
from opensandbox.models.filesystem import WriteEntry
from opensandbox.models.sandboxes import Host, NetworkPolicy, NetworkRule, SandboxFilter, SandboxInfo, Volume
from opensandbox.transport import RetryAsyncTransport, RetryPolicy

from gym_core.errors import EpisodeError, SandboxError
from gym_core.sandbox.contract import Mount, SandboxResources
from gym_core.sandbox.providers.opensandbox.bounded import bounded_transport
from gym_core.sandbox.providers.opensandbox.config import OpenSandboxConfig

log = logging.getLogger(__name__)

SDK_VERSION = version("opensandbox")

_CONNECTIONS = 1024
_RETRY_PAUSE = timedelta(milliseconds=100)
_SLACK_S = 10.0
_PATIENCE_S = 10.0
"""How long a creation that nobody wants any more is waited for; then it goes on alone."""

_UPLOAD_TIMEOUT_S = 300.0
_UPLOAD_MODE = 644
"""The SDK takes the octal digits as a decimal number."""

_KILLED = (-1, -9, 137)
"""Exit codes that daemons give for SIGKILL: the first is Go's for any signal, the last a shell's."""

_MOST_COMPLAINTS = 20
_PAGE_SIZE = 100
_MOST_PAGES = 1000
_REFUSALS = range(400, 500)
_TRY_LATER = (408, 425, 429)
_NOT_THERE = 404
RUNNING = "Running"


class ServiceFault(SandboxError):
    """The OpenSandbox server, or the daemon in a sandbox, refused, failed or did not answer."""

    def __init__(self, message: str, status: int | None = None, *, is_unreachable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; None when there was no answer."""
        self.is_unreachable = is_unreachable
        """No connection came to be."""

    @property
    def is_not_there(self) -> bool:
        return self.status == _NOT_THERE

    @property
    def is_refusal(self) -> bool:
        """The same request would be refused again."""
        return self.status in _REFUSALS and self.status not in _TRY_LATER


@dataclass(frozen=True)
class Order:
    """One sandbox to be made."""

    image: str
    ttl_s: float
    resources: SandboxResources
    labels: Mapping[str, str]
    allowed_address: str | None
    """The one address that may be reached."""
    mounts: tuple[Mount, ...]


@dataclass(frozen=True)
class Listed:
    """What the server says of a sandbox."""

    remote_id: str
    state: str
    labels: dict[str, str]
    created_at: float
    expires_at: float | None


@dataclass(frozen=True)
class EgressPolicy:
    """What the sidecar beside a sandbox enforces, and how, in its own words."""

    mode: str
    default: str
    rules: frozenset[tuple[str, str]]
    """Action and target of each."""


class Remote:
    """One sandbox that the server made."""

    def __init__(self, sandbox: Sandbox, config: OpenSandboxConfig, slack_s: float) -> None:
        self._sandbox = sandbox
        self._config = config
        self._slack_s = slack_s
        self._stopping: set[asyncio.Future[None]] = set()

    @property
    def id(self) -> str:
        """The server's own name of it."""
        identity: str = self._sandbox.id
        return identity

    async def run(self, argv: list[str], *, timeout_s: float, on_text: Callable[[str], None]) -> bool:
        """Run a program to its end; `on_text` gets its output, cut anywhere. Cancelling stops it.

        False when it was killed, as anything inside may do to it. Raises ServiceFault, also when the stream ended
        before the program or the program failed: what runs here does not. Never tried twice.
        """
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        complaints: list[str] = []

        async def on_init(event: ExecutionInit) -> None:
            if not started.done():
                started.set_result(event.id)

        async def on_stdout(message: OutputMessage) -> None:
            on_text(message.text)

        async def on_stderr(message: OutputMessage) -> None:
            if len(complaints) < _MOST_COMPLAINTS:
                complaints.append(message.text[:200])

        handlers = ExecutionHandlers(on_init=on_init, on_stdout=on_stdout, on_stderr=on_stderr, skip_accumulation=True)
        uid = self._config.uid
        options = RunCommandOpts(timeout=timedelta(seconds=timeout_s), uid=uid, gid=uid)
        call = asyncio.ensure_future(self._sandbox.commands.run(argv, opts=options, handlers=handlers))
        ended: Execution | None = None
        try:
            async with _deadline(timeout_s + self._slack_s, "a command"):
                ended = await asyncio.shield(call)
        finally:
            if ended is None or ended.exit_code is None:
                await self._stop(call, started)
        if ended.exit_code is None and ended.error:
            said = f"{ended.error.name}: {ended.error.value}"[:500]
            raise ServiceFault(f"a command: its courier did not start as user {uid}: {said}")
        if ended.exit_code is None:  # neither success nor failure: nobody knows
            raise ServiceFault("a command: its stream ended before it did")
        if ended.exit_code in _KILLED:
            return False
        if ended.exit_code != 0:
            said = " ".join(complaints).strip()[:500]
            raise ServiceFault(f"a command: its courier ended with {ended.exit_code}: {said or ended.error}")
        return True

    async def upload(self, path: str, content: bytes) -> None:
        """Reported as done by the daemon; whether it was, the caller finds out."""
        async with _deadline(_UPLOAD_TIMEOUT_S, f"upload to {path!r}"):
            await self._sandbox.files.write_files([WriteEntry(path=path, data=content, mode=_UPLOAD_MODE)])

    async def forget_upload(self, path: str) -> None:
        """The daemon's files are not the commands', who cannot remove them. Raises ServiceFault."""
        async with self._deadline(f"removal of {path!r}"):
            await self._sandbox.files.delete_files([path])

    async def renew(self, seconds: float) -> None:
        async with self._deadline("renewal"):
            await self._sandbox.renew(timedelta(seconds=seconds))

    async def is_running(self) -> bool:
        """Whether the server has it, running: what commands do to its daemon is no matter. Raises ServiceFault."""
        try:
            async with self._deadline("look"):
                state: str = (await self._sandbox.get_info()).status.state
                return state == RUNNING
        except ServiceFault as fault:
            if fault.is_not_there:
                return False
            raise

    async def answers(self) -> bool:
        """Whether its daemon does, too. Raises ServiceFault when the server does not."""
        async with self._deadline("look"):
            return await self.is_running() and bool(await self._sandbox.is_healthy())

    async def policy(self) -> EgressPolicy:
        """Read from the sidecar itself, not from what was asked for."""
        async with self._deadline("reading the egress policy back"):
            endpoint = await self._sandbox.get_endpoint(DEFAULT_EGRESS_PORT)
            connection = self._sandbox.connection_config
            client = EgressClient(
                base_url=f"{connection.protocol}://{endpoint.endpoint}",
                headers=endpoint.build_request_headers(connection),
                httpx_args={"transport": connection.transport},
            )
            reply = await get_policy.asyncio_detailed(client=client)
        found = reply.parsed
        if not isinstance(found, PolicyStatusResponse) or not found.policy:
            status = int(reply.status_code)
            raise ServiceFault(f"reading the egress policy back: the sidecar did not tell it: HTTP {status}", status)
        policy = NetworkPolicy.model_validate(found.policy.to_dict())
        return EgressPolicy(
            mode=found.enforcement_mode or "",
            default=policy.default_action or "",
            rules=frozenset((rule.action, rule.target) for rule in policy.egress or ()),
        )

    async def _stop(self, call: "asyncio.Future[Execution]", started: "asyncio.Future[str]") -> None:
        """Whoever cancels us meanwhile, it is done; that it failed is not news."""

        async def stop() -> None:
            said: set[asyncio.Future[Execution] | asyncio.Future[str]] = {call, started}
            await asyncio.wait(said, timeout=self._slack_s, return_when=asyncio.FIRST_COMPLETED)
            try:
                if started.done():
                    async with self._deadline("interrupting a command"):
                        await self._sandbox.commands.interrupt(started.result())
            except ServiceFault as fault:
                log.info("command not interrupted", extra={"sandbox": self.id, "reason": str(fault)[:200]})
            finally:
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)

        stopping = asyncio.ensure_future(stop())
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)
        await asyncio.shield(stopping)

    def _deadline(self, what: str) -> AbstractAsyncContextManager[None]:
        return _deadline(self._config.request_timeout_s + self._slack_s, f"sandbox {self.id!r}: {what}")


class _Connection(ConnectionConfig):
    """The SDK's own takes an empty key for one that it was not told, and looks for another in the environment."""

    def get_api_key(self) -> str:
        return self.api_key or ""


class Service:
    """The OpenSandbox server."""

    def __init__(self, config: OpenSandboxConfig, slack_s: float = _SLACK_S) -> None:
        """`slack_s` is how much longer our deadlines are than the SDK's time-outs, whose errors say more."""
        self._config = config
        self._slack_s = slack_s
        # What the SDK does not do well is said by our errors; its own lines are tracebacks of what we expect.
        logging.getLogger("opensandbox").setLevel(logging.CRITICAL)
        # Requests that may be made twice are; a command or a creation never is.
        retries = RetryPolicy(max_retries=2, initial_backoff=_RETRY_PAUSE, max_backoff=_RETRY_PAUSE)
        self._transport = RetryAsyncTransport(bounded_transport(max_connections=_CONNECTIONS), retries, owns_inner=True)
        self._abandoned: set[asyncio.Task[None]] = set()
        """Ends of creations that nobody waits for any more."""

    def _connection(self, request_timeout_s: float) -> ConnectionConfig:
        key = self._config.api_key
        return _Connection(
            domain=self._config.domain,
            api_key=key.get_secret_value() if key else None,
            protocol=self._config.protocol,
            use_server_proxy=self._config.use_server_proxy,
            request_timeout=timedelta(seconds=request_timeout_s),
            transport=self._transport,
            disable_metrics=True,
        )

    async def create(self, order: Order) -> Remote:
        """One attempt. Raises ServiceFault; a sandbox may then exist all the same, known by its labels alone."""
        limit_s = self._config.create_timeout_s
        making = asyncio.ensure_future(self._create(order, limit_s))
        try:
            done, _ = await asyncio.wait({making}, timeout=limit_s + self._slack_s)
        except asyncio.CancelledError:
            # Cancelling the request would not stop the server: its answer tells what there is to kill.
            await asyncio.wait({self._keep(self._kill_when_made(making))}, timeout=_PATIENCE_S)
            raise
        if not done:
            making.cancel()
            self._keep(self._kill_when_made(making))
            raise ServiceFault(f"creation: no answer within {limit_s:g} s")
        with _translated("creation"):
            return Remote(making.result(), self._config, self._slack_s)

    async def _kill_when_made(self, making: "asyncio.Future[Sandbox]") -> None:
        """One that failed, or was cancelled, has been seen to by the SDK as far as it knew of it."""
        await asyncio.wait({making})
        if not making.cancelled() and not making.exception():
            with suppress(ServiceFault):  # its time ends it
                await self.kill(making.result().id)

    def _keep(self, ending: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(ending)
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)
        return task

    async def _create(self, order: Order, limit_s: float) -> Sandbox:
        resources, allowed = order.resources, order.allowed_address
        return await Sandbox.create(
            order.image,
            timeout=timedelta(seconds=order.ttl_s),
            ready_timeout=timedelta(seconds=limit_s),
            metadata=dict(order.labels),
            resource={"cpu": f"{max(1, round(resources.cpu * 1000))}m", "memory": f"{resources.memory_mib}Mi"},
            # Said outright: an empty policy means "allow" to the server and "deny" to the sidecar.
            network_policy=NetworkPolicy(
                default_action="deny", egress=[NetworkRule(action="allow", target=allowed)] if allowed else []
            ),
            secure_access=self._config.secure_access,
            volumes=[
                Volume(name=f"mount-{n}", host=Host(path=mount.source), mount_path=mount.target, read_only=True)
                for n, mount in enumerate(order.mounts)
            ]
            or None,
            connection_config=self._connection(self._config.create_timeout_s),
        )

    async def find(self, labels: Mapping[str, str]) -> list[Listed]:
        """All that bear these labels. Raises ServiceFault."""
        found: list[Listed] = []
        async with self._manager() as manager:
            for page in range(1, _MOST_PAGES + 1):
                wanted = SandboxFilter(metadata=dict(labels), page=page, page_size=_PAGE_SIZE)
                async with self._deadline("list"):
                    answer = await manager.list_sandbox_infos(wanted)
                found.extend(_listed(info) for info in answer.sandbox_infos)
                if not answer.pagination.has_next_page:
                    break
        return found

    async def kill(self, remote_id: str) -> None:
        """That there is none is fine. Raises ServiceFault."""
        try:
            async with self._manager() as manager, self._deadline(f"kill of {remote_id!r}"):
                await manager.kill_sandbox(remote_id)
        except ServiceFault as fault:
            if not fault.is_not_there:
                raise

    async def aclose(self) -> None:
        if self._abandoned:
            _, late = await asyncio.wait(self._abandoned, timeout=_PATIENCE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._transport.aclose()

    @asynccontextmanager
    async def _manager(self) -> AsyncIterator[SandboxManager]:
        with _translated("OpenSandbox"):
            manager = await SandboxManager.create(self._connection(self._config.request_timeout_s))
        yield manager  # its transport is ours, so there is nothing to close

    def _deadline(self, what: str) -> AbstractAsyncContextManager[None]:
        return _deadline(self._config.request_timeout_s + self._slack_s, what)


def _listed(info: SandboxInfo) -> Listed:
    return Listed(
        remote_id=info.id,
        state=info.status.state,
        labels=info.metadata or {},
        created_at=info.created_at.timestamp(),
        expires_at=info.expires_at.timestamp() if info.expires_at else None,
    )


@asynccontextmanager
async def _deadline(seconds: float, what: str) -> AsyncIterator[None]:
    """No longer than that, and what goes wrong inside leaves as ServiceFault. Cancellation passes."""
    try:
        with _translated(what):
            async with asyncio.timeout(seconds):
                yield
    except TimeoutError as error:
        raise ServiceFault(f"{what}: no answer within {seconds:g} s") from error


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except (EpisodeError, TimeoutError):
        raise
    except SandboxApiException as error:
        code = error.error.code if error.error else ""
        raise ServiceFault(f"{what}: HTTP {error.status_code} {code}: {error}"[:600], error.status_code) from error
    except SandboxConnectionException as error:
        said = str(error).partition(" | [")[0]  # the SDK says it twice
        raise ServiceFault(f"{what}: {said}"[:600], is_unreachable=True) from error
    except Exception as error:  # strangers' answers go through the SDK's parsers, which raise anything
        raise ServiceFault(f"{what}: {type(error).__name__}: {error}"[:600]) from error
