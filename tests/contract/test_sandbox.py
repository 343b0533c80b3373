"""What every sandbox does, whoever provides it: one suite, each implementation a parameter.

The fake runs no programs, so what needs some runs on real sandboxes alone.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from gym_core.errors import SandboxLost, SandboxUnavailable
from gym_core.sandbox.contract import ExecResult, Launch, Sandbox, SandboxProvider, SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider
from tests.fakes.lending import open_lender
from tests.fakes.sandbox import FakeProvider, FakeSandbox

SPEC = SandboxSpec(env={"COLOUR": "green"}, resources=SandboxResources(memory_mib=256, workspace_mib=16, pids=64))
Open = Callable[[], Awaitable[Sandbox]]

_ids = itertools.count()
live = pytest.mark.live


def run_by_heart(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
    """The few programs that this suite asks a fake for."""
    match launch.argv:
        case ["cat", path]:
            if path not in sandbox.files:
                return ExecResult(exit_code=1, stderr=b"cat: no such file\n")
            return ExecResult(exit_code=0, stdout=sandbox.files[path])
        case ["false"]:
            return ExecResult(exit_code=1)
        case ["no-such-program"]:
            return ExecResult(exit_code=127, stderr=b"no-such-program: No such file or directory\n")
    return ExecResult(exit_code=0)


async def provider_of(kind: str, stack: AsyncExitStack) -> SandboxProvider:
    if kind == "fake":
        return FakeProvider(run_by_heart)
    provider = LocalProvider()
    stack.push_async_callback(provider.aclose)
    try:
        await provider.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return provider


@pytest.fixture
async def open_sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens sandboxes of the kind that the parameter names: "fake", "local", "leased fake", "leased local"."""
    kind: str = request.param
    async with AsyncExitStack() as stack:
        provider = await provider_of(kind.split()[-1], stack)
        lender = await stack.enter_async_context(open_lender()) if kind.startswith("leased") else None

        async def open_one() -> Sandbox:
            sandbox = await provider.create(f"contract-{os.getpid()}-{next(_ids)}", SPEC)
            return lender.lend(sandbox) if lender else sandbox

        yield open_one


every_kind = pytest.mark.parametrize(
    "open_sandbox",
    ["fake", "leased fake", pytest.param("local", marks=live), pytest.param("leased local", marks=live)],
    indirect=True,
)
real_kinds = pytest.mark.parametrize(
    "open_sandbox",
    [pytest.param("local", marks=live), pytest.param("leased local", marks=live)],
    indirect=True,
)


@every_kind
async def test_a_written_file_is_read_back_and_seen_by_commands(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    content = bytes(range(256)) * 300
    await sandbox.write("/workspace/new/folder/ä #?.bin", content)
    assert await sandbox.read("/workspace/new/folder/ä #?.bin") == content
    assert (await sandbox.exec(Launch(argv=["cat", "/workspace/new/folder/ä #?.bin"]))).stdout == content


@every_kind
async def test_writing_again_replaces_the_file(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    await sandbox.write("/workspace/a", b"a long first version")
    await sandbox.write("/workspace/a", b"second")
    assert await sandbox.read("/workspace/a") == b"second"


@every_kind
async def test_a_missing_file_is_a_file_not_found_error(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    with pytest.raises(FileNotFoundError):
        await sandbox.read("/workspace/nothing")


@every_kind
async def test_a_file_longer_than_asked_for_is_a_value_error(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    await sandbox.write("/workspace/a", b"12345")
    assert await sandbox.read("/workspace/a", max_bytes=5) == b"12345"
    with pytest.raises(ValueError, match="longer"):
        await sandbox.read("/workspace/a", max_bytes=4)


@every_kind
async def test_relative_paths_are_refused(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    with pytest.raises(ValueError, match="absolute"):
        await sandbox.read("a")
    with pytest.raises(ValueError, match="absolute"):
        await sandbox.write("a", b"")


@every_kind
async def test_failing_and_missing_programs_are_results(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    failing = await sandbox.exec(Launch(argv=["false"]))
    missing = await sandbox.exec(Launch(argv=["no-such-program"]))
    assert (failing.exit_code, failing.ok) == (1, False)
    assert (missing.exit_code, b"no-such-program" in missing.stderr) == (127, True)


@every_kind
async def test_output_past_the_cap_is_dropped_and_said(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    await sandbox.write("/workspace/long", b"x" * 100_000)
    seen: list[bytes] = []
    launch = Launch(argv=["cat", "/workspace/long"], output_cap_bytes=1000)
    result = await sandbox.exec(launch, lambda _, data: seen.append(data))
    assert (result.exit_code, result.stdout, result.truncated) == (0, b"x" * 1000, True)
    assert b"".join(seen) == result.stdout


@every_kind
async def test_a_closed_sandbox_is_lost(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    assert await sandbox.is_alive()
    await sandbox.close()
    await sandbox.close()
    assert not await sandbox.is_alive()
    for use in (sandbox.exec(Launch(argv=["true"])), sandbox.read("/a"), sandbox.write("/a", b""), sandbox.renew()):
        with pytest.raises(SandboxLost):
            await use


@every_kind
async def test_closing_survives_cancellation(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    closing = asyncio.create_task(sandbox.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await sandbox.close()
    assert not await sandbox.is_alive()


@every_kind
async def test_renewing_a_living_sandbox_works(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    await sandbox.renew()
    assert await sandbox.is_alive()


@every_kind
async def test_a_sandbox_says_what_it_enforces(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    assert sandbox.enforced.network == "none"
    assert sandbox.model_url is None
    assert sandbox.workdir == "/workspace"


@real_kinds
async def test_streams_are_kept_apart_and_environment_and_folder_are_set(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    seen: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def collect(stream: str, data: bytes) -> None:
        seen[stream] += data

    script = 'echo "$COLOUR $SIZE $PWD"; echo oops >&2; exit 3'
    result = await sandbox.exec(Launch(argv=["sh", "-c", script], env={"SIZE": "big"}, cwd="/tmp"), collect)
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"green big /tmp\n", b"oops\n")
    assert seen == {"stdout": result.stdout, "stderr": result.stderr}


@real_kinds
async def test_a_signal_is_not_an_exit_code(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    result = await sandbox.exec(Launch(argv=["sh", "-c", "kill -TERM $$"]))
    assert (result.exit_code, result.signal, result.timed_out) == (None, 15, False)


async def _running(sandbox: Sandbox, word: str) -> bytes:
    script = f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '{word[0]}[{word[1]}]{word[2:]}'"
    return (await sandbox.exec(Launch(argv=["sh", "-c", script]))).stdout


@real_kinds
async def test_a_time_out_kills_the_whole_family_and_keeps_the_output(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    script = "echo started; sleep 741 & setsid sleep 741 & setsid sh -c 'sleep 741; true' & sleep 741"
    result = await sandbox.exec(Launch(argv=["sh", "-c", script], timeout_s=0.4))
    assert (result.exit_code, result.timed_out, result.stdout) == (None, True, b"started\n")
    assert await _running(sandbox, "sleep 741") == b""


@real_kinds
async def test_a_background_process_does_not_hold_the_call(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    async with asyncio.timeout(10):
        result = await sandbox.exec(Launch(argv=["sh", "-c", "sleep 742 & echo done"], timeout_s=60))
    assert (result.exit_code, result.stdout) == (0, b"done\n")
    assert await _running(sandbox, "sleep 742") == b"sleep 742\n"


@real_kinds
async def test_cancelling_kills_the_command(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    started = asyncio.Event()
    call = asyncio.create_task(
        sandbox.exec(Launch(argv=["sh", "-c", "echo up; sleep 743 & sleep 743"]), lambda *_: started.set())
    )
    await asyncio.wait_for(started.wait(), 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(10):
        while await _running(sandbox, "sleep 743"):  # noqa: ASYNC110 - another process's end has no event
            await asyncio.sleep(0.02)


@real_kinds
async def test_long_arguments_and_environments_arrive(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    argv = ["sh", "-c", 'echo "$# ${#1} ${#LONG}"', "sh", *["a" * 1000] * 400]
    result = await sandbox.exec(Launch(argv=argv, env={"LONG": "b" * 100_000}))
    assert result.stdout == b"400 1000 100000\n"


@real_kinds
async def test_megabytes_go_in_and_out_whole(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    content = os.urandom(9 << 20)
    await sandbox.write("/workspace/big", content, mode=0o600)
    assert await sandbox.read("/workspace/big") == content
    mode = await sandbox.exec(Launch(argv=["stat", "-c", "%a %U", "/workspace/big"]))
    assert mode.stdout == b"600 agent\n"


@real_kinds
async def test_what_the_file_system_refuses_is_an_os_error(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    with pytest.raises(OSError, match="space"):
        await sandbox.write("/workspace/too-big", bytes(17 << 20))
    with pytest.raises(OSError, match="Read-only"):
        await sandbox.write("/usr/new", b"")
    await sandbox.write("/workspace/folder/file", b"")
    with pytest.raises(IsADirectoryError):
        await sandbox.write("/workspace/folder", b"")
    assert await sandbox.exec(Launch(argv=["ls", "-A", "/workspace"])) == ExecResult(exit_code=0, stdout=b"folder\n")


@real_kinds
async def test_a_fifo_a_folder_and_a_device_are_no_files(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    await sandbox.exec(Launch(argv=["mkfifo", "/workspace/fifo"]))
    for path in ("/workspace/fifo", "/workspace", "/dev/zero"):
        async with asyncio.timeout(10):
            with pytest.raises(ValueError, match="regular"):
                await sandbox.read(path)
    async with asyncio.timeout(10):
        await sandbox.write("/workspace/fifo", b"now a file")
    assert await sandbox.read("/workspace/fifo") == b"now a file"


@real_kinds
async def test_many_commands_at_once_do_not_mix(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    results = await asyncio.gather(*(sandbox.exec(Launch(argv=["echo", str(n)])) for n in range(20)))
    assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(20)]


@real_kinds
async def test_a_null_character_in_a_path_is_a_value_error(open_sandbox: Open) -> None:
    sandbox = await open_sandbox()
    with pytest.raises(ValueError, match="null"):
        await sandbox.read("/a\0b")
