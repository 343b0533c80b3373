"""Running the build's tools."""

import os
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.toolkit.process import run_tool


def test_the_output_comes_back() -> None:
    assert run_tool(["/bin/sh", "-c", "echo $WORD"], what="a try", env={"WORD": "hello"}, timeout_s=10) == "hello\n"


def test_a_failure_tells_what_was_done_how_it_ended_and_what_was_said() -> None:
    with pytest.raises(SandboxUnavailable, match=r"a try: `/bin/sh .*` ended with 3:\n  no luck"):
        run_tool(["/bin/sh", "-c", "echo no luck >&2; exit 3"], what="a try", timeout_s=10)


def test_a_missing_program_is_named() -> None:
    with pytest.raises(SandboxUnavailable, match="a try: cannot run '/no/such/program': No such file"):
        run_tool(["/no/such/program"], what="a try", timeout_s=10)


def test_what_a_tool_started_is_gone_after_a_time_out(tmp_path: Path) -> None:
    # The child holds the writing end of a fifo: reading it ends only when the child is dead.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(SandboxUnavailable, match="did not end within 0.3 s"):
        run_tool(["/bin/sh", "-c", f"(exec >{fifo}; echo started; sleep 60) & wait"], what="a try", timeout_s=0.3)
    os.set_blocking(reading, True)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"started\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_unprivileged_tool_is_not_root() -> None:
    said = run_tool(["/bin/sh", "-c", "id -u; id -G"], what="a try", timeout_s=10, unprivileged=True, cwd=Path("/"))
    assert said.split() == ["65534", "65534"]
