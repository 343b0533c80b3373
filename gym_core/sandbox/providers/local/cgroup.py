"""Limits on memory, processes and cores by control groups, version 1 or 2, where this process may make some.

Version 2 forbids limits inside a group that holds processes, so beside our own group its parent and the root are tried.
Whether it works is found by trying it with a real process, not by reading settings.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gym_core.sandbox.contract import SandboxResources
from gym_core.sandbox.providers.local.state import BoxRecords

log = logging.getLogger(__name__)

_FOLDER = "gym"
_PERIOD_US = 100_000
_SHARE = 16
"""Of our group as a whole, in tasks: the scheduler weighs a group of many sandboxes like this many single processes of
the host, where the default is one and a busy host would starve them all."""
_MAKE_TRIES = 5
_REMOVE_TRIES = 400
_REMOVE_WAIT_S = 0.005
_TRIAL_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class CgroupTree:
    """Where groups can be made: one parent per controller in version 1, one for all in version 2."""

    version: str
    """"cgroup_v1" or "cgroup_v2"."""
    parents: dict[str, Path]
    """By controller; version 2 has the one key "unified"."""

    def group(self, name: str) -> "Cgroup":
        """Names it; `make` makes it."""
        return Cgroup(self, [parent / _FOLDER / name for parent in self.parents.values()])

    def tidy(self) -> None:
        """Remove our parent folders if nobody uses them."""
        for parent in self.parents.values():
            with contextlib.suppress(OSError):
                (parent / _FOLDER).rmdir()


@dataclass(frozen=True)
class Cgroup:
    tree: CgroupTree
    folders: list[Path]

    @property
    def join_files(self) -> list[str]:
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def make(self, resources: SandboxResources) -> None:
        """About 1 ms. Raises OSError; `remove` is right then too."""
        for _ in range(_MAKE_TRIES - 1):
            try:
                return self._make(resources)
            except FileNotFoundError:  # another provider tidied the parent away just now
                for folder in self.folders:
                    with contextlib.suppress(FileNotFoundError):
                        folder.rmdir()
        return self._make(resources)

    def _make(self, resources: SandboxResources) -> None:
        quota_us = max(1000, int(resources.cpu * _PERIOD_US))
        memory = str(resources.memory_mib << 20)
        if self.tree.version == "cgroup_v2":
            (folder,) = self.folders
            folder.parent.mkdir(exist_ok=True)
            _delegate(folder.parent.parent)
            _delegate(folder.parent)
            folder.mkdir()
            (folder / "memory.max").write_text(memory)
            (folder / "pids.max").write_text(str(resources.pids))
            with contextlib.suppress(OSError):
                (folder / "memory.swap.max").write_text("0")
            with contextlib.suppress(OSError):
                (folder / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
                (folder.parent / "cpu.weight").write_text(str(100 * _SHARE))
            return
        for controller, folder in zip(self.tree.parents, self.folders, strict=True):
            folder.mkdir(parents=True)
            if controller == "memory":
                (folder / "memory.limit_in_bytes").write_text(memory)
                with contextlib.suppress(OSError):
                    (folder / "memory.memsw.limit_in_bytes").write_text(memory)
            elif controller == "pids":
                (folder / "pids.max").write_text(str(resources.pids))
            elif controller == "cpu":
                (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
                with contextlib.suppress(OSError):
                    (folder.parent / "cpu.shares").write_text(str(1024 * _SHARE))

    async def remove(self) -> None:
        await remove_groups(self.folders)


async def remove_groups(folders: list[Path]) -> None:
    """Kill what is in them and remove them; gone ones are fine."""
    for folder in folders:
        for _ in range(_REMOVE_TRIES):
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError:  # busy: processes are still in it, or still on their way out
                _kill_members(folder)
                await asyncio.sleep(_REMOVE_WAIT_S)
            else:
                break
        else:
            log.warning("cgroup not removed", extra={"folder": str(folder)})


def _kill_members(folder: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _delegate(folder: Path) -> None:
    (folder / "cgroup.subtree_control").write_text("+memory +pids")
    with contextlib.suppress(OSError):  # cores are shared out where that can be had
        (folder / "cgroup.subtree_control").write_text("+cpu")


async def find_cgroup_tree(records: BoxRecords) -> CgroupTree | None:
    """The first tree in which a group can be made, limited and joined; None when there is none.

    Each trial is on record while it lasts, like a sandbox, for the case that we are killed in it.
    """
    for tree in _candidates():
        if await _works(tree, records):
            return tree
    return None


def _candidates() -> list[CgroupTree]:
    try:
        return candidate_trees(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return []


def candidate_trees(mounts: str, own_groups: str) -> list[CgroupTree]:
    """From /proc/self/mounts and /proc/self/cgroup, best first."""
    own = {controller: path for _, names, path in _own_groups(own_groups) for controller in names.split(",")}
    version_1: dict[str, Path] = {}
    trees = []
    for line in mounts.splitlines():
        _, target, kind, options, *_ = line.split()
        root = Path(target)
        if kind == "cgroup":
            for controller in {"memory", "pids", "cpu"} & set(options.split(",")):
                inside = root / own.get(controller, "/").lstrip("/")
                version_1[controller] = inside if inside.is_dir() else root  # a container may see only its own part
        elif kind == "cgroup2":
            inside = root / own.get("", "/").lstrip("/")
            for parent in dict.fromkeys((inside, inside.parent, root)):
                if parent.is_relative_to(root) and _offers(parent):
                    trees.append(CgroupTree("cgroup_v2", {"unified": parent}))
    if {"memory", "pids"} <= version_1.keys():
        trees.append(CgroupTree("cgroup_v1", dict(sorted(version_1.items()))))
    return trees


def _own_groups(text: str) -> list[tuple[str, str, str]]:
    rows = [line.split(":", 2) for line in text.splitlines()]
    return [(number, names, path) for number, names, path in rows]


def _offers(folder: Path) -> bool:
    try:
        return {"memory", "pids"} <= set((folder / "cgroup.controllers").read_text().split())
    except OSError:
        return False


async def _works(tree: CgroupTree, records: BoxRecords) -> bool:
    name = f"trial-{os.getpid()}-{secrets.token_hex(4)}"
    group = tree.group(name)
    claim = records.claim(longest_s=_TRIAL_TIMEOUT_S)
    records.write(name, name, claim=claim, cgroups=group.folders, metadata={"trial": "control groups"})
    join = 'for file in "$@"; do echo $$ > "$file" || exit 1; done'
    try:
        group.make(SandboxResources())
        trial = await asyncio.to_thread(
            subprocess.run,
            ["/bin/sh", "-c", join, "sh", *group.join_files],
            capture_output=True,
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        await group.remove()
        records.remove(name)
        tree.tidy()
    return trial.returncode == 0
