"""One sandbox's processes, and everything on the host that belongs to them: made in order, unmade in reverse."""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import replace

from gym_core.errors import SandboxLost, SandboxUnavailable
from gym_core.sandbox.box.channel import Channel
from gym_core.sandbox.box.layout import ENV, OPEN_FILES, InitStart, longest_s
from gym_core.sandbox.box.relay import Relay
from gym_core.sandbox.contract import ModelOnly, SandboxSpec
from gym_core.sandbox.providers.local import diagnosis
from gym_core.sandbox.providers.local.bubblewrap import Descriptors, box_argv, init_interpreter
from gym_core.sandbox.providers.local.cgroup import Cgroup
from gym_core.sandbox.providers.local.host import Host
from gym_core.sandbox.providers.local.process import Command, Process
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement

log = logging.getLogger(__name__)

_READY_TIMEOUT_S = 30.0
_EXIT_TIMEOUT_S = 10.0
_DATA_FACTOR = 8
"""Without a control group, one process may have this many times the memory limit as data: a tight RLIMIT_DATA makes a
JavaScript engine collect garbage all the time."""

# Joins the control groups while it still may; what it runs in its place drops every privilege.
_ENTER = f"""
while [ "$1" != -- ]; do echo $$ > "$1" || exit 70; shift; done; shift
ulimit -c 0; ulimit -n {OPEN_FILES} 2>/dev/null || :
exec "$@"
"""


class Cell:
    """`on_gone` is called with the reason when the sandbox ends without `close`."""

    def __init__(self, sandbox_id: SafeId, spec: SandboxSpec, host: Host, on_gone: Callable[[str], None]) -> None:
        self.init_pid: int | None = None
        # Two providers may use one id, and removing a group kills what is in it: the name is nobody else's.
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}-{sandbox_id}"
        self._sandbox_id = sandbox_id
        self._spec = spec
        self._host = host
        self._on_gone = on_gone
        self._uid: int | None = None
        self._cgroup: Cgroup | None = host.cgroups.group(self.name) if host.cgroups else None
        self._init_pidfd = -1
        self._process: Process | None = None
        self._watching_exit: asyncio.Task[None] | None = None
        self._channel: Channel | None = None
        self._relay: Relay | None = None

    @property
    def channel(self) -> Channel:
        if self._channel is None:
            raise SandboxLost(f"sandbox {self._sandbox_id!r} is not open")
        return self._channel

    @property
    def env(self) -> dict[str, str]:
        return ENV

    @property
    def enforced(self) -> SandboxEnforcement:
        return SandboxEnforcement(
            provider="local",
            mechanism=f"bubblewrap {self._host.bubblewrap.version}",
            network="exact_port" if isinstance(self._spec.network, ModelOnly) else "none",
            memory=self._host.cgroups.version if self._host.cgroups else "watchdog",
            seccomp=True,
            user="uid_per_sandbox" if self._host.uids else "shared_uid",
        )

    async def open(self) -> None:
        """About 35 ms. When it raises, `close` takes away what there is by then. Raises SandboxUnavailable."""
        uid = os.geteuid()
        if self._host.uids:
            uid = self._uid = self._host.uids.take()
        for mount in self._spec.mounts:
            diagnosis.must_reach(mount.source, uid)
        self._host.records.write(
            self.name,
            self._sandbox_id,
            claim=self._host.records.claim(longest_s=longest_s(self._spec)),
            cgroups=self._cgroup.folders if self._cgroup else [],
            metadata=self._spec.metadata,
        )
        if self._cgroup:
            self._cgroup.make(self._spec.resources)
        stderr = os.memfd_create("gym-stderr")
        try:
            await self._start(stderr)
        finally:
            os.close(stderr)

    async def _start(self, stderr: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._channel = channel = Channel(ours, self._on_gone)
            self._process = process = self._spawn(theirs.fileno(), stderr)
        self._watching_exit = asyncio.create_task(self._watch_exit(process))
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                await channel.ready
        except (SandboxLost, TimeoutError) as error:
            said = os.pread(stderr, 4096, 0).decode(errors="replace")
            raise SandboxUnavailable(diagnosis.explain(said)) from error
        self.init_pid = process.only_child()
        if self.init_pid is None:
            raise SandboxUnavailable("local sandboxes: process 1 ended at once")
        self._init_pidfd = os.pidfd_open(self.init_pid)
        if isinstance(self._spec.network, ModelOnly):
            if channel.listener is None:
                raise SandboxUnavailable("local sandboxes: process 1 handed out no listening socket")
            self._relay = Relay(channel.listener, self._spec.network)
            channel.listener = None

    def _spawn(self, control_fd: int, stderr: int) -> Process:
        bubblewrap = self._host.bubblewrap
        descriptors = Descriptors.open(seccomp=self._host.seccomp, init=self._host.init)
        try:
            argv = [
                *("/bin/sh", "-c", _ENTER, "sh", *(self._cgroup.join_files if self._cgroup else ()), "--"),
                *self._drop_privileges(),
                *box_argv(bubblewrap, self._spec, descriptors),
                *self._init_argv(control_fd),
            ]
            fds = (control_fd, *descriptors.all, *bubblewrap.fds)
            return Process(Command(argv, fds, stderr, {"PATH": "/usr/bin:/bin", **bubblewrap.env}))
        finally:
            descriptors.close()

    def _drop_privileges(self) -> list[str]:
        """Never run bubblewrap as host uid 0: its user 1000 would still be the kernel's uid 0 outside."""
        if self._uid is None:
            return []
        setpriv = shutil.which("setpriv") or "setpriv"
        user = [f"--reuid={self._uid}", f"--regid={self._uid}", "--clear-groups"]
        return [setpriv, *user, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]

    def _init_argv(self, control_fd: int) -> list[str]:
        resources = self._spec.resources
        start = InitStart(control=str(control_fd))
        if self._cgroup is None:
            start = replace(start, max_processes=resources.pids, data_mib=resources.memory_mib * _DATA_FACTOR)
        return start.argv(init_interpreter(self._spec.mounts), self._spec)

    async def _watch_exit(self, process: Process) -> None:
        await process.exited.wait()
        self._on_gone("its processes ended")
        self.channel.close(SandboxLost(f"sandbox {self._sandbox_id!r} is gone"))

    async def close(self) -> None:
        """About 2 ms. Leaves nothing: processes, control groups, user id, record. Call once."""
        self._kill()  # first, and at once: whatever becomes of the rest, the sandbox has ended
        if self._watching_exit:
            self._watching_exit.cancel()
            await asyncio.gather(self._watching_exit, return_exceptions=True)
        if self._relay:
            await self._relay.close()
        if self._channel:
            self._channel.close(SandboxLost(f"sandbox {self._sandbox_id!r} was closed"))
            if self._channel.listener:
                self._channel.listener.close()
        if self._process:
            await self._ended(self._process)
        if self._init_pidfd >= 0:
            os.close(self._init_pidfd)
        if self._cgroup:
            await self._cgroup.remove()
        if self._uid is not None and self._host.uids:
            self._host.uids.give_back(self._uid)
        self._host.records.remove(self.name)

    def _kill(self) -> None:
        """Kill process 1: the kernel ends the rest before bubblewrap, its parent, sees it end and ends too."""
        if self._init_pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init_pidfd, signal.SIGKILL)
        elif self._process:
            self._process.kill()

    async def _ended(self, process: Process) -> None:
        try:
            async with asyncio.timeout(_EXIT_TIMEOUT_S):
                await process.exited.wait()
        except TimeoutError:
            log.warning("sandbox slow to end", extra={"sandbox": self._sandbox_id})
            process.kill()
            await process.exited.wait()
