"""Process 1 ends a sandbox that its owner has forgotten: what holds where the owner hangs and cannot be asked."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_core.sandbox.box import init

pytestmark = [pytest.mark.live, pytest.mark.slow]

IDLE_S = 1


@pytest.fixture
def control(tmp_path: Path) -> Iterator[tuple[socket.socket, "subprocess.Popen[bytes]"]]:
    """Process 1 outside a sandbox, called by the path of its socket, and our end of that."""
    path = tmp_path / "c"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(1)
        words = [str(path), "0", "0", "0", str(IDLE_S), "", str(tmp_path)]
        process = subprocess.Popen([sys.executable, "-I", "-S", init.__file__, *words])
        listener.settimeout(20)
        ours, _ = listener.accept()
    with ours:
        assert json.loads(ours.recv(4096)) == {"event": "ready"}
        yield ours, process
    process.kill()
    process.wait()


def test_it_ends_when_nobody_asks_anything_of_it(control: tuple[socket.socket, "subprocess.Popen[bytes]"]) -> None:
    _, process = control
    assert process.wait(20) == 0


def test_each_request_and_a_running_command_keep_it(control: tuple[socket.socket, "subprocess.Popen[bytes]"]) -> None:
    ours, process = control
    start = time.monotonic()
    words = {"op": "exec", "id": 1, "argv": ["sleep", str(2 * IDLE_S)], "cwd": None, "env": {"PATH": "/usr/bin:/bin"}}
    socket.send_fds(ours, [json.dumps(words).encode()], [1, 2])
    assert json.loads(ours.recv(4096)) == {"event": "exit", "id": 1, "status": 0}
    ours.send(b'{"op": "ping", "id": 2}')
    assert json.loads(ours.recv(4096)) == {"event": "exit", "id": 2, "status": 0}
    assert process.wait(20) == 0
    assert time.monotonic() - start >= 3 * IDLE_S
