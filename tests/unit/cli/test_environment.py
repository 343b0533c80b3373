import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym_core.cli.environment import ServerRow, started_lines, status_lines, stay_up
from gym_core.cli.launcher import OpenGym
from gym_core.cli.main import main
from gym_core.cli.readiness import needs_toolkit
from gym_core.cli.selection import Selection
from gym_core.cli.state import announce, find_head
from gym_core.errors import ConfigError, EpisodeError
from gym_core.types.run import RunOptions, RunProgress, RunResult
from tests.unit.config.house import House


class NoRuns:
    async def start_run(self, options: RunOptions) -> str:
        raise AssertionError("no run is started here")

    async def watch(self, run_id: str) -> AsyncIterator[RunProgress | RunResult]:
        raise AssertionError("no run is started here")
        yield

    async def cancel(self, run_id: str, *, drain: bool) -> None:
        raise AssertionError("no run is started here")


@pytest.fixture
async def gym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenGym:
    monkeypatch.setenv("GYM_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("GYM_API_KEY", raising=False)
    state_dir = tmp_path / "gym-1"
    state_dir.mkdir()
    died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    return OpenGym("http://127.0.0.1:11000", "run-token", state_dir, NoRuns(), died)


async def test_a_gym_is_found_while_it_is_announced(gym: OpenGym) -> None:
    with announce(gym) as state:
        found = find_head(None)
        assert found == state
        assert found.token() == "run-token"
        assert (gym.state_dir / "token").stat().st_mode & 0o077 == 0
        assert find_head("http://127.0.0.1:11000/") == state
    with pytest.raises(ConfigError, match="no gym was started here"):
        find_head(None)


async def test_the_token_is_shown_by_file_only(gym: OpenGym) -> None:
    with announce(gym) as state:
        text = "\n".join(started_lines(state))
    assert "run-token" not in text
    assert str(gym.state_dir / "token") in text


async def test_a_users_own_token_goes_first_and_another_head_needs_it(
    gym: OpenGym, monkeypatch: pytest.MonkeyPatch
) -> None:
    with announce(gym), pytest.raises(ConfigError, match="needs a token: set GYM_API_KEY"):
        find_head("http://elsewhere:11000").token()
    monkeypatch.setenv("GYM_API_KEY", "user-token")
    assert find_head("http://elsewhere:11000").token() == "user-token"


async def test_a_pointer_that_makes_no_sense_is_no_gym(gym: OpenGym) -> None:
    for content in ("", "[]", '{"url": 1}', "{"):
        (gym.state_dir.parent / "head.json").write_text(content)
        with pytest.raises(ConfigError, match="no gym was started here"):
            find_head(None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_gym_stays_up_until_it_is_told_to_stop(
    gym: OpenGym, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
    await stay_up(gym)
    assert "http://127.0.0.1:11000" in capsys.readouterr().out
    assert not (gym.state_dir / "token").exists()


async def test_a_gym_that_ends_by_itself_is_an_error_with_the_reason(gym: OpenGym) -> None:
    asyncio.get_running_loop().call_soon(gym.died.set_result, "the head server ended (code -9)")
    with pytest.raises(EpisodeError, match="code -9"):
        await stay_up(gym)


@pytest.mark.parametrize(
    ("reply", "code", "text"),
    [
        ('[{"name": "policy_model", "status": "ready", "new_field": 1}]', 0, "policy_model"),
        ('{"not": "a list"}', 1, "does not answer like a head server"),
    ],
)
async def test_the_status_comes_from_the_head_server(
    gym: OpenGym, reply: str, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(reply)}\r\nConnection: close\r\n\r\n{reply}".encode())
        await writer.drain()
        writer.close()

    monkeypatch.setenv("GYM_API_KEY", "user-token")
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await asyncio.to_thread(main, ["env", "status", "--head", f"http://127.0.0.1:{port}"]) == code
    captured = capsys.readouterr()
    assert text in captured.out + captured.err
    assert requests[0].startswith(b"GET /server_instances")
    assert b"Bearer user-token" in requests[0]


def test_the_status_is_a_table() -> None:
    rows = [
        ServerRow(name="policy_model", server_type="model_servers", implementation="vllm_model", status="ready", pid=7),
        ServerRow(name="gr\x1bader", status="restarting", restarts=2, uptime_seconds=61),
    ]
    header, first, second = status_lines(rows)
    assert header.split() == ["server", "type", "status", "up", "restarts", "pid", "url"]
    assert first.split() == ["policy_model", "model_servers/vllm_model", "ready", "0", "7"]
    assert second.split() == ["grader", "/", "restarting", "1", "min", "01", "s", "2"]


@pytest.mark.parametrize(
    ("overrides", "needed"),
    [
        ((), True),
        (("++sandbox.local.toolkit=/opt/mine",), False),
        (("grader.resources_servers.grader.sandbox_provider=null",), False),
    ],
)
def test_the_toolkit_is_needed_where_an_embedded_sandbox_is_lent(
    furnished: House, overrides: tuple[str, ...], needed: bool
) -> None:
    given = ("++policy_base_url=http://h/v1", "++policy_api_key=k")
    checked = Selection("puzzles", None, "vllm_model", (), (), (*given, *overrides)).check()
    assert needs_toolkit(checked) is needed
