"""The system-call filter of an embedded sandbox, assembled by hand for `bwrap --seccomp` (x86-64 and 64-bit Arm).

A deny list over the native ABI, and an *allow* list of socket families. The families matter most: a network namespace
does not confine AF_VSOCK, so without the list a task in an empty network could talk to the machine's hypervisor.
io_uring is refused because it opens sockets and files without passing through a filter.
"""

import platform
import struct
from dataclasses import dataclass

from gym_core.errors import SandboxUnavailable

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_NUMBER, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
"""Byte offsets in struct seccomp_data; of an argument, its low half."""

_X32_BIT = 0x40000000
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""

_NAMESPACE_FLAGS = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID and NET."""

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Terminal requests that type into somebody else's terminal."""

_CLONE3 = 435
_SAME_EVERYWHERE = {
    "clone3": _CLONE3, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "process_mrelease": 448,
}  # fmt: skip

_DENIED_X86_64 = {
    "ptrace": 101, "syslog": 103, "uselib": 134, "ustat": 136, "sysfs": 139, "vhangup": 153, "modify_ldt": 154,
    "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166,
    "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212,
    "clock_settime": 227, "mbind": 237, "set_mempolicy": 238, "kexec_load": 246, "add_key": 248, "request_key": 249,
    "keyctl": 250, "migrate_pages": 256, "unshare": 272, "move_pages": 279, "perf_event_open": 298,
    "fanotify_init": 300, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308,
    "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320,
    "bpf": 321, "userfaultfd": 323,
}  # fmt: skip

_DENIED_AARCH64 = {
    "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42, "chroot": 51, "vhangup": 58,
    "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162,
    "settimeofday": 170, "adjtimex": 171, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
    "swapoff": 225, "mbind": 235, "set_mempolicy": 237, "migrate_pages": 238, "move_pages": 239,
    "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
    "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip


@dataclass(frozen=True)
class _Machine:
    audit_arch: int
    socket: int
    socketpair: int
    clone: int
    ioctl: int
    denied: dict[str, int]
    has_x32: bool


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, 53, 56, 16, _DENIED_X86_64, has_x32=True),
    "aarch64": _Machine(0xC00000B7, 198, 199, 220, 29, _DENIED_AARCH64, has_x32=False),
}


class _Program:
    """Classic BPF, written in order; jumps count instructions forward."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []

    def add(self, operation: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self._code.append((operation, if_true, if_false, value))

    def refuse(self, errno: int) -> None:
        self.add(_RETURN, _ERRNO | errno)

    def when_call_is(self, number: int, *, body_length: int) -> None:
        """The next `body_length` instructions run for this call only; they must end in a return."""
        self.add(_IF_EQUAL, number, 0, body_length)

    def pack(self) -> bytes:
        return b"".join(struct.pack("<HBBI", *instruction) for instruction in self._code)


def seccomp_filter(machine: str | None = None) -> bytes:
    """The filter as an array of struct sock_filter. Raises SandboxUnavailable for a machine without a table."""
    name = machine or platform.machine()
    if name not in _MACHINES:
        raise SandboxUnavailable(f"local sandboxes: no system-call table for {name!r}, only for {sorted(_MACHINES)}")
    calls, program = _MACHINES[name], _Program()
    program.add(_LOAD, _ARCH)
    program.add(_IF_EQUAL, calls.audit_arch, 1, 0)
    program.add(_RETURN, _KILL_PROCESS)
    program.add(_LOAD, _NUMBER)
    if calls.has_x32:
        program.add(_IF_AT_LEAST, _X32_BIT, 0, 1)
        program.add(_RETURN, _KILL_PROCESS)
    program.when_call_is(_CLONE3, body_length=1)
    program.refuse(_ENOSYS)  # its flags cannot be read by a filter; the C library falls back to clone
    _restrict_clone(program, calls.clone)
    for number in (calls.socket, calls.socketpair):
        _restrict_families(program, number)
    _restrict_ioctl(program, calls.ioctl)
    for number in sorted({**_SAME_EVERYWHERE, **calls.denied}.values()):
        program.when_call_is(number, body_length=1)
        program.refuse(_EPERM)
    program.add(_RETURN, _ALLOW)
    return program.pack()


def _restrict_clone(program: _Program, number: int) -> None:
    program.when_call_is(number, body_length=4)
    program.add(_LOAD, _ARG0)
    program.add(_IF_ANY_BIT, _NAMESPACE_FLAGS, 0, 1)
    program.refuse(_EPERM)
    program.add(_RETURN, _ALLOW)


def _restrict_families(program: _Program, number: int) -> None:
    program.when_call_is(number, body_length=len(_FAMILIES) + 3)
    program.add(_LOAD, _ARG0)
    for index, family in enumerate(_FAMILIES):
        program.add(_IF_EQUAL, family, len(_FAMILIES) - index, 0)
    program.refuse(_EAFNOSUPPORT)
    program.add(_RETURN, _ALLOW)


def _restrict_ioctl(program: _Program, number: int) -> None:
    program.when_call_is(number, body_length=5)
    program.add(_LOAD, _ARG1)
    program.add(_IF_EQUAL, _TIOCSTI, 1, 0)
    program.add(_IF_EQUAL, _TIOCLINUX, 0, 1)
    program.refuse(_EPERM)
    program.add(_RETURN, _ALLOW)
