"""The watchdog, on processes of the test's own."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from gym_core.sandbox.providers.local.watchdog import Watched, enforce

MIB = 1 << 20
FAMILY = """
import subprocess, sys
hold = "import time; held = bytearray({} << 20); print(flush=True); time.sleep(60)"
children = [
    subprocess.Popen([sys.executable, "-S", "-c", hold.format(mib)], stdout=subprocess.PIPE) for mib in (5, 120)
]
for child in children:
    child.stdout.readline()
print(*(child.pid for child in children), flush=True)
for child in reversed(children):
    print(child.wait(), flush=True)
"""


class Family:
    """A process with two children, of 5 and 120 MiB."""

    def __init__(self, parent: subprocess.Popen[str]) -> None:
        assert parent.stdout
        self.parent = parent
        self.small, self.big = map(int, parent.stdout.readline().split())


@pytest.fixture
def family() -> Iterator[Family]:
    argv = [sys.executable, "-S", "-c", FAMILY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        family = Family(parent)
        yield family
        for pid in (family.small, family.big):
            subprocess.run(["kill", "-9", str(pid)], stderr=subprocess.DEVNULL, check=False)
        parent.kill()


def is_running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip() not in ("", "Z", "Zs")


def test_within_the_limit_nobody_is_killed(family: Family) -> None:
    enforce(Watched(family.parent.pid, 1000 * MIB))
    assert is_running(family.small)
    assert is_running(family.big)


def test_past_the_limit_the_largest_goes_and_the_others_stay(family: Family) -> None:
    enforce(Watched(family.parent.pid, 100 * MIB))
    assert family.parent.stdout
    assert family.parent.stdout.readline() == "-9\n"
    assert is_running(family.small)
    assert family.parent.poll() is None


def test_a_family_that_is_gone_is_fine() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    enforce(Watched(gone.pid, MIB))


def test_process_1_itself_is_never_killed(family: Family) -> None:
    for _ in range(3):
        enforce(Watched(family.parent.pid, 1))
    assert family.parent.poll() is None
