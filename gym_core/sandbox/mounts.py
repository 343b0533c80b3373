"""Folders of the host that a configuration shows to sandboxes, read-only: which may be, and whether they really are.

A sandbox runs a stranger's code. What it may read, it may tell; and through a socket that it sees it may act, read-only
or not.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.arguments import must_be_path
from gym_core.sandbox.box.layout import HOME, INIT_PATH
from gym_core.sandbox.contract import DEFAULT_WORKDIR, Launch, Mount, Sandbox

MOST_MOUNTS = 16

_CLOSED_TREES = (
    *("/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/etc"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet"),
)
"""The kernel's, the machine's own settings and sockets, and what belongs to other containers."""
_CLOSED_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".git", ".env"})
"""Where people and programs keep keys."""
_CLOSED_FILES = frozenset(
    {
        *(".netrc", "_netrc", ".authinfo", ".git-credentials", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".dockercfg"),
        *(".boto", ".s3cfg", ".vault-token", ".htpasswd", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "env.yaml"),
    }
)
"""Files of keys, our own with the endpoint's among them."""

_TAKEN_TREES = (
    *("/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/.gym", INIT_PATH, "/opt/toolkit"),
)
_TAKEN_FOLDERS = (DEFAULT_WORKDIR, HOME, "/tmp")
"""These themselves; below them there is room."""

MOST_ENTRIES = 50_000
"""Files and folders that a mount may hold: each is looked at before the start."""
_LOOK = Launch(argv=["cat", "/proc/self/mountinfo"], timeout_s=30, output_cap_bytes=1 << 20)
_ESCAPE = re.compile(r"\\([0-7]{3})")


class SharedFolder(Mount):
    """One that a configuration may name. A single file is fine too."""

    @field_validator("source")
    @classmethod
    def _may_be_shown(cls, source: str) -> str:
        _must_be_open(_plain(source), source)
        try:
            real = os.path.realpath(source)
        except OSError as error:
            raise ValueError(f"{source!r} cannot be looked at: {error.strerror}") from error
        _must_be_open(real, source)
        if real in _homes():
            raise ValueError(f"{_named(source, real)} is a home folder, with the keys in it: name a folder inside")
        if home := next((home for home in sorted(_homes()) if _is_within(home, real)), None):
            raise ValueError(f"{_named(source, real)} holds {home!r}, a home folder: name a folder without one")
        if closed := (_CLOSED_FOLDERS | _CLOSED_FILES).intersection(Path(real).parts):
            raise ValueError(f"{_named(source, real)} is, or is in, {min(closed)!r}, where keys are kept")
        if _is_hidden_file_of_a_home(Path(real)):
            raise ValueError(f"{_named(source, real)} is a hidden file of a home folder, where keys are kept")
        return source

    @field_validator("target")
    @classmethod
    def _has_room(cls, target: str) -> str:
        _plain(target)
        for tree in _TAKEN_TREES:
            if _is_within(target, tree) or _is_within(tree, target):
                raise ValueError(f"{target!r} is, or holds, {tree}, which a sandbox needs; choose such as /data")
        if any(_is_within(folder, target) for folder in _TAKEN_FOLDERS):
            raise ValueError(f"{target!r} is, or holds, a folder that a sandbox writes to; choose one below, or /data")
        return target


def _apart(mounts: list[SharedFolder]) -> list[SharedFolder]:
    targets = [mount.target for mount in mounts]
    for index, target in enumerate(targets):
        if other := next((t for t in targets[:index] if _is_within(t, target) or _is_within(target, t)), None):
            raise ValueError(f"{target!r} and {other!r} are in each other's way")
    return mounts


SharedFolders = Annotated[list[SharedFolder], Field(max_length=MOST_MOUNTS), AfterValidator(_apart)]


def why_not_here(mount: Mount) -> str | None:
    """What is wrong with a source on this machine; None where nothing is. Reads the folder: blocks."""
    source = Path(mount.source)
    try:
        if not source.is_dir():
            return None if source.is_file() else "is no folder or file of this machine"
        for count, entry in enumerate(source.rglob("*"), start=1):
            if count > MOST_ENTRIES:
                return (
                    f"holds more than {MOST_ENTRIES} files and folders, too many to look for sockets among them: "
                    "name a smaller folder in it, or several"
                )
            if entry.is_socket():
                return f"holds a socket, {str(entry)!r}, through which a sandbox could act outside"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    return None


def why_ours(mount: Mount, folders: Iterable[Path]) -> str | None:
    """What is wrong with a source that is, holds or lies in one of the gym's own folders; None where it does not."""
    real = os.path.realpath(mount.source)
    for folder in folders:
        own = os.path.realpath(folder)
        if _is_within(real, own) or _is_within(own, real):
            return f"is, holds or lies in {str(folder)!r}, where the gym keeps its tokens and its sandboxes' records"
    return None


async def must_be_read_only(sandbox: Sandbox, mounts: Sequence[Mount]) -> list[str]:
    """Looks from inside, whatever the provider says. Their targets. Raises SandboxUnavailable."""
    if not mounts:
        return []
    seen = await sandbox.exec(_LOOK)
    if not seen.ok:
        raise SandboxUnavailable(f"sandbox {sandbox.id!r} is not lent: its mounts cannot be looked at from inside")
    options = mount_options(seen.stdout.decode("utf-8", "replace"))
    for mount in mounts:
        found = options.get(mount.target)
        if found is None:
            raise SandboxUnavailable(f"sandbox {sandbox.id!r} is not lent: nothing is mounted inside at {mount.target}")
        if "ro" not in found:
            raise SandboxUnavailable(f"sandbox {sandbox.id!r} is not lent: {mount.target} can be written to")
    return [mount.target for mount in mounts]


def mount_options(mountinfo: str) -> dict[str, set[str]]:
    """Path to the options of what is mounted on top there, of the text of /proc/self/mountinfo."""
    rows = [line.split(" ") for line in mountinfo.splitlines()]
    return {
        _ESCAPE.sub(lambda digits: chr(int(digits[1], 8)), row[4]): set(row[5].split(","))
        for row in rows
        if len(row) > 5
    }


def _plain(path: str) -> str:
    must_be_path(path)
    if path != posixpath.normpath(path) or path.startswith("//"):
        raise ValueError(f"{path!r} is not written plainly; that would be {posixpath.normpath(path)!r}")
    if any(char in path for char in ":,\n\\"):
        raise ValueError(f"{path!r} holds a character that providers read as their own")
    return path


def _must_be_open(real: str, source: str) -> None:
    for tree in (*_CLOSED_TREES, *map(os.path.realpath, _CLOSED_TREES)):
        if _is_within(real, tree) or _is_within(tree, real):
            raise ValueError(f"{_named(source, real)} is, or holds, {tree}, which no sandbox may see")


def _is_within(path: str, tree: str) -> bool:
    return path == tree or path.startswith(f"{tree.rstrip('/')}/")


def _homes() -> set[str]:
    homes = [Path("/root"), Path("/home"), Path.home()]
    if Path("/home").is_dir():
        homes += Path("/home").iterdir()
    return {os.path.realpath(home) for home in homes}


def _is_hidden_file_of_a_home(path: Path) -> bool:
    return path.name.startswith(".") and str(path.parent) in _homes() and not path.is_dir()


def _named(source: str, real: str) -> str:
    return repr(source) if source == real else f"{source!r} (which leads to {real!r})"
