"""What this host offers to sandboxes, found once for a provider and shared by all it makes."""

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.box import init
from gym_core.sandbox.box.seccomp import seccomp_filter
from gym_core.sandbox.providers.local.bubblewrap import Bubblewrap, find_bubblewrap
from gym_core.sandbox.providers.local.cgroup import CgroupTree, find_cgroup_tree
from gym_core.sandbox.providers.local.state import BoxRecords, StateDir, default_state_dir
from gym_core.sandbox.providers.local.uids import UidPool
from gym_core.types.wire import Wire


class LocalSandboxConfig(Wire):
    state_dir: StateDir | None = None
    """Folder for the records that let another process clean up after a killed one; None is `default_state_dir()`."""
    bwrap: str | None = None
    """Path of the bubblewrap to use; None takes the one on PATH, else the wheel's."""
    toolkit: str | None = None
    """Folder that every sandbox sees, read-only, at /opt/toolkit; its `bin` comes first on PATH."""
    max_memory_mib: int | None = Field(default=None, gt=0)
    """Sum of the memory limits of all sandboxes alive at once; one more is refused. None is no limit."""

    @property
    def state_path(self) -> Path:
        return Path(self.state_dir) if self.state_dir else default_state_dir()


@dataclass(frozen=True)
class Host:
    bubblewrap: Bubblewrap
    cgroups: CgroupTree | None
    """None where no limits can be set by control groups: a watchdog does it."""
    uids: UidPool | None
    """None unless we are root: then each sandbox gets a user id of its own."""
    records: BoxRecords
    seccomp: bytes
    init: bytes

    def close(self) -> None:
        self.bubblewrap.close()
        self.records.close()
        if self.uids:
            self.uids.close()
        if self.cgroups:
            self.cgroups.tidy()


async def survey(config: LocalSandboxConfig) -> Host:
    """Takes some 10 ms. Raises SandboxUnavailable."""
    if os.uname().sysname != "Linux":
        raise SandboxUnavailable("local sandboxes: need Linux; elsewhere use the docker or opensandbox provider")
    is_root = os.geteuid() == 0
    if is_root and not shutil.which("setpriv"):
        raise SandboxUnavailable("local sandboxes: setpriv is missing; install util-linux, or run as an ordinary user")
    seccomp = seccomp_filter()
    init_source = await asyncio.to_thread(Path(init.__file__).read_bytes)
    bubblewrap = await asyncio.to_thread(find_bubblewrap, config.bwrap)
    records = BoxRecords(config.state_path)
    try:
        uids = UidPool() if is_root else None
        cgroups = await find_cgroup_tree(records)
    except BaseException:
        records.close()
        bubblewrap.close()
        raise
    return Host(bubblewrap, cgroups, uids, records, seccomp, init_source)
