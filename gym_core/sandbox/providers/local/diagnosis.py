"""Why a sandbox could not be made, and what to do about it, in words for the person who runs this machine."""

import os
from pathlib import Path

from gym_core.errors import SandboxUnavailable

_SYSCTLS = {
    "kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "allow `userns` to bwrap in an AppArmor profile, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}
"""Setting to (the value that forbids us, the fix)."""

_NAMESPACES = ("namespace", "uid map", "unshare", "clone")


def explain(stderr: str) -> str:
    """From what bubblewrap said before it ended."""
    said = stderr.strip()[-500:] or "it ended without a word"
    return "; ".join([f"local sandboxes: bubblewrap could not make one: {said}", *_fixes(said)])


def _fixes(said: str) -> list[str]:
    fixes = []
    if any(word in said.lower() for word in _NAMESPACES):
        fixes += [fix for name, (bad, fix) in _SYSCTLS.items() if _setting(name) == bad]
        if not fixes:
            fixes.append(
                "in a container, run it with --security-opt seccomp=unconfined (or a profile with user namespaces)"
            )
    if "mount proc" in said or "proc on /" in said:
        fixes.append("in a container, run it with --security-opt systempaths=unconfined")
    return [f"to allow it: {fix}" for fix in fixes]


def _setting(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return None


def must_reach(source: str, uid: int) -> None:
    """A folder to mount must be there for the user that bubblewrap runs as. Raises SandboxUnavailable naming what bars.

    Looks at permission bits; a stranger's uid has only those of "others".
    """
    path = Path(source)
    if not path.exists():
        raise SandboxUnavailable(f"local sandboxes: mount source {source!r} does not exist")
    for folder in (*reversed(path.resolve().parents), path.resolve()):
        reachable = os.access(folder, os.X_OK) if uid == os.geteuid() else bool(folder.stat().st_mode & 0o001)
        if folder.is_dir() and not reachable:
            raise SandboxUnavailable(
                f"local sandboxes: mount source {source!r} cannot be reached by the sandbox's user: {str(folder)!r} is "
                f"closed to others; put it elsewhere, or chmod o+x {str(folder)!r}"
            )
