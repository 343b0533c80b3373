"""The filter, run by a small interpreter of classic BPF: what it says about a call, for each machine."""

import struct

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.box.seccomp import seccomp_filter

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED, KILLED = "allowed", "killed"
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> str | int:
    """ "allowed", "killed", or the errno."""
    data = struct.pack("<IIQ6Q", number, arch or ARCH[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    program = list(struct.iter_unpack("<HBBI", seccomp_filter(machine)))
    accumulator: int = 0
    position = 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == 0x06:
            ends: dict[int, str] = {0x7FFF0000: ALLOWED, 0x80000000: KILLED}
            return ends.get(value) or int(value & 0xFFFF)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
            continue
        holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
        position += if_true if holds else if_false


@pytest.mark.parametrize(
    ("machine", "number", "arguments", "expected"),
    [
        ("x86_64", 0, (), ALLOWED),  # read
        ("x86_64", 59, (), ALLOWED),  # execve
        ("x86_64", 101, (), EPERM),  # ptrace
        ("x86_64", 165, (), EPERM),  # mount
        ("x86_64", 272, (), EPERM),  # unshare
        ("x86_64", 425, (), EPERM),  # io_uring_setup
        ("x86_64", 435, (), ENOSYS),  # clone3
        ("x86_64", 56, (0x01200011,), ALLOWED),  # clone as fork does
        ("x86_64", 56, (0x003D0F00,), ALLOWED),  # clone as a thread does
        ("x86_64", 56, (0x10000011,), EPERM),  # clone into a user namespace
        ("x86_64", 56, (0x40000011,), EPERM),  # clone into a network namespace
        ("x86_64", 41, (1,), ALLOWED),  # socket(AF_UNIX)
        ("x86_64", 41, (2,), ALLOWED),
        ("x86_64", 41, (10,), ALLOWED),
        ("x86_64", 41, (16,), ALLOWED),
        ("x86_64", 41, (17,), EAFNOSUPPORT),  # AF_PACKET
        ("x86_64", 41, (40,), EAFNOSUPPORT),  # AF_VSOCK
        ("x86_64", 53, (1,), ALLOWED),  # socketpair
        ("x86_64", 53, (30,), EAFNOSUPPORT),  # AF_TIPC
        ("x86_64", 16, (1, 0x5401), ALLOWED),  # ioctl(TCGETS)
        ("x86_64", 16, (1, 0x5412), EPERM),  # ioctl(TIOCSTI)
        ("x86_64", 16, (1, 0x541C), EPERM),  # ioctl(TIOCLINUX)
        ("x86_64", 0x40000000 | 41, (40,), KILLED),  # the x32 way round
        ("aarch64", 63, (), ALLOWED),  # read
        ("aarch64", 40, (), EPERM),  # mount
        ("aarch64", 220, (0x10000011,), EPERM),
        ("aarch64", 220, (0x01200011,), ALLOWED),
        ("aarch64", 198, (40,), EAFNOSUPPORT),
        ("aarch64", 198, (2,), ALLOWED),
        ("aarch64", 29, (0, 0x5412), EPERM),
    ],
)
def test_a_call_gets_its_verdict(machine: str, number: int, arguments: tuple[int, ...], expected: str | int) -> None:
    assert verdict(machine, number, *arguments) == expected


def test_a_call_by_another_machine_s_numbers_kills() -> None:
    assert verdict("x86_64", 0, arch=0x40000003) == KILLED


def test_a_machine_without_a_table_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="riscv64"):
        seccomp_filter("riscv64")
