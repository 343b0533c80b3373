"""What every sandbox does, whoever provides it: one suite over `tests.sandboxes.registry`.

Here is what callers see of one sandbox; `test_sandbox_life.py` has its beginning, its end and its neighbours.
"""

import asyncio
import hashlib
import os
import re

import pytest

from gym_core.errors import SandboxLost
from gym_core.sandbox.contract import ExecResult, Launch, ModelOnly, Sandbox, SandboxResources
from tests.sandboxes.registry import every_provider
from tests.sandboxes.subject import Ability, Stage
from tests.sandboxes.words import serve_words

ODD_PATHS = [
    "/workspace/new/folder/ä #?.bin",
    "/workspace/a b/%2e%2e/+&=;'\"$(x)`y`\\.txt",
    "/workspace/図/🎨 \u202egnp.png",
    "/workspace/-rf",
    "/workspace/" + "n" * 200 + "/" + "m" * 200,
]


async def shell(sandbox: Sandbox, script: str) -> str:
    return (await sandbox.exec(Launch(argv=["sh", "-c", script]))).stdout.decode()


# -- files ----------------------------------------------------------------------------------------------------------


@every_provider()
@pytest.mark.parametrize("path", ODD_PATHS, ids=["accents", "quotes", "pictures", "dash", "long"])
async def test_a_written_file_is_read_back_and_seen_by_commands(stage: Stage, path: str) -> None:
    sandbox = await stage.open()
    content = bytes(range(256)) * 300
    await sandbox.write(path, content)
    assert await sandbox.read(path) == content
    assert (await sandbox.exec(Launch(argv=["cat", path]))).stdout == content


@every_provider()
async def test_writing_again_replaces_the_file_and_an_empty_one_is_a_file(stage: Stage) -> None:
    sandbox = await stage.open()
    await sandbox.write("/workspace/a", b"a long first version")
    await sandbox.write("/workspace/a", b"second")
    assert await sandbox.read("/workspace/a") == b"second"
    await sandbox.write("/workspace/a", b"")
    assert await sandbox.read("/workspace/a") == b""


@every_provider()
async def test_a_missing_file_is_a_file_not_found_error(stage: Stage) -> None:
    sandbox = await stage.open()
    with pytest.raises(FileNotFoundError):
        await sandbox.read("/workspace/nothing")


@every_provider()
async def test_a_file_longer_than_asked_for_is_a_value_error(stage: Stage) -> None:
    sandbox = await stage.open()
    await sandbox.write("/workspace/a", b"12345")
    assert await sandbox.read("/workspace/a", max_bytes=5) == b"12345"
    with pytest.raises(ValueError, match="longer"):
        await sandbox.read("/workspace/a", max_bytes=4)


@every_provider()
@pytest.mark.parametrize("path", ["a", "", "./a"])
async def test_relative_paths_are_refused(stage: Stage, path: str) -> None:
    sandbox = await stage.open()
    with pytest.raises(ValueError, match="absolute"):
        await sandbox.read(path)
    with pytest.raises(ValueError, match="absolute"):
        await sandbox.write(path, b"")


@every_provider(Ability.PROGRAMS)
async def test_a_null_character_in_a_path_is_a_value_error(stage: Stage) -> None:
    sandbox = await stage.open()
    with pytest.raises(ValueError, match="null"):
        await sandbox.read("/a\0b")
    with pytest.raises(ValueError, match="null"):
        await sandbox.exec(Launch(argv=["echo", "a\0b"]))


@every_provider(Ability.PROGRAMS)
async def test_a_file_arrives_whole_with_its_mode_and_belongs_to_the_user_of_commands(stage: Stage) -> None:
    sandbox = await stage.open()
    content = os.urandom(9 << 20)
    await sandbox.write("/workspace/big", content, mode=0o640)
    about = await shell(sandbox, "stat -c '%s %a %u' big; id -u; sha256sum big | cut -c1-64")
    size, mode, owner, user, digest = about.split()
    assert (int(size), mode, owner) == (len(content), "640", user)
    assert digest == hashlib.sha256(content).hexdigest()
    assert await sandbox.read("/workspace/big") == content


@pytest.mark.slow
@every_provider(Ability.PROGRAMS)
async def test_sixty_four_mebibytes_go_in_and_out_whole(stage: Stage) -> None:
    sandbox = await stage.open(resources=SandboxResources(memory_mib=512, workspace_mib=96, pids=64))
    content = os.urandom(1 << 20) * 64
    async with asyncio.timeout(60):
        await sandbox.write("/workspace/big", content)
        assert (await shell(sandbox, "stat -c %s big")).strip() == str(64 << 20)
        assert await sandbox.read("/workspace/big", max_bytes=64 << 20) == content


@every_provider(Ability.PROGRAMS, Ability.SIZED_WORKSPACE)
async def test_what_does_not_fit_is_an_os_error_and_leaves_nothing(stage: Stage) -> None:
    sandbox = await stage.open()
    with pytest.raises(OSError, match="space"):
        await sandbox.write("/workspace/too-big", bytes(17 << 20))
    assert await shell(sandbox, "ls -A /workspace") == ""


@every_provider(Ability.PROGRAMS, Ability.READ_ONLY_SYSTEM)
async def test_what_the_file_system_refuses_is_an_os_error(stage: Stage) -> None:
    sandbox = await stage.open()
    with pytest.raises(OSError, match="Read-only|denied"):
        await sandbox.write("/usr/new", b"")
    await sandbox.write("/workspace/folder/file", b"")
    with pytest.raises(IsADirectoryError):
        await sandbox.write("/workspace/folder", b"")
    with pytest.raises(OSError, match="ot a directory|File exists"):
        await sandbox.write("/workspace/folder/file/below", b"")
    assert await shell(sandbox, "ls -A /workspace") == "folder\n"


@every_provider(Ability.PROGRAMS)
async def test_a_fifo_a_folder_and_a_device_are_no_files(stage: Stage) -> None:
    sandbox = await stage.open()
    await shell(sandbox, "mkfifo fifo")
    for path in ("/workspace/fifo", "/workspace", "/dev/zero"):
        async with asyncio.timeout(10):
            with pytest.raises(ValueError, match="regular"):
                await sandbox.read(path)
    async with asyncio.timeout(10):
        await sandbox.write("/workspace/fifo", b"now a file")
    assert await sandbox.read("/workspace/fifo") == b"now a file"


@every_provider(Ability.PROGRAMS)
async def test_a_link_inside_leads_nowhere_outside_and_is_replaced_not_followed(stage: Stage) -> None:
    sandbox = await stage.open()
    await shell(sandbox, f"ln -s {__file__} here; ln -s / root; echo kept > victim; ln -s victim link; ln -s loop loop")
    for path in ("/workspace/here", f"/workspace/root{__file__}"):
        with pytest.raises(FileNotFoundError):
            await sandbox.read(path)
    with pytest.raises(OSError, match="link|loop"):
        await sandbox.read("/workspace/loop")
    await sandbox.write("/workspace/link", b"new")
    assert await sandbox.read("/workspace/victim") == b"kept\n"
    assert await shell(sandbox, "stat -c %F link") == "regular file\n"


# -- commands -------------------------------------------------------------------------------------------------------


@every_provider()
async def test_failing_and_missing_programs_are_results(stage: Stage) -> None:
    sandbox = await stage.open()
    failing = await sandbox.exec(Launch(argv=["false"]))
    missing = await sandbox.exec(Launch(argv=["no-such-program"]))
    assert (failing.exit_code, failing.ok) == (1, False)
    assert (missing.exit_code, b"no-such-program" in missing.stderr) == (127, True)


@every_provider()
async def test_output_past_the_cap_is_dropped_and_said(stage: Stage) -> None:
    sandbox = await stage.open()
    await sandbox.write("/workspace/long", b"x" * 100_000)
    seen: list[bytes] = []
    launch = Launch(argv=["cat", "/workspace/long"], output_cap_bytes=1000)
    result = await sandbox.exec(launch, lambda _, data: seen.append(data))
    assert (result.exit_code, result.stdout, result.truncated) == (0, b"x" * 1000, True)
    assert b"".join(seen) == result.stdout


@every_provider(Ability.PROGRAMS)
async def test_streams_are_kept_apart_and_environment_and_folder_are_set(stage: Stage) -> None:
    sandbox = await stage.open(env={"COLOUR": "green"})
    seen: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def collect(stream: str, data: bytes) -> None:
        seen[stream] += data

    script = 'echo "$COLOUR $SIZE $PWD"; echo oops >&2; exit 3'
    result = await sandbox.exec(Launch(argv=["sh", "-c", script], env={"SIZE": "big"}, cwd="/tmp"), collect)
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"green big /tmp\n", b"oops\n")
    assert seen == {"stdout": result.stdout, "stderr": result.stderr}
    assert await shell(sandbox, "pwd; touch here") == "/workspace\n"


@every_provider(Ability.PROGRAMS)
async def test_bytes_that_are_no_text_come_out_as_they_are(stage: Stage) -> None:
    sandbox = await stage.open()
    content = bytes(range(256)) * 40
    await sandbox.write("/workspace/bytes", content)
    result = await sandbox.exec(Launch(argv=["sh", "-c", "cat bytes; cat bytes >&2"]))
    assert (result.stdout, result.stderr) == (content, content)


@every_provider(Ability.PROGRAMS)
async def test_a_signal_is_not_an_exit_code_and_none_is_no_success(stage: Stage) -> None:
    sandbox = await stage.open()
    result = await sandbox.exec(Launch(argv=["sh", "-c", "kill -TERM $$"]))
    assert (result.exit_code, result.signal, result.timed_out, result.ok) == (None, 15, False, False)


async def running(sandbox: Sandbox, word: str) -> str:
    """The command lines inside that hold the word; the search does not find itself."""
    script = f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '{word[0]}[{word[1]}]{word[2:]}'"
    return await shell(sandbox, script)


@every_provider(Ability.PROGRAMS)
async def test_a_time_out_kills_the_group_and_keeps_the_output(stage: Stage) -> None:
    sandbox = await stage.open()
    script = "echo started; trap '' TERM HUP INT; sleep 741 & sleep 741"
    async with asyncio.timeout(20):
        result = await sandbox.exec(Launch(argv=["sh", "-c", script], timeout_s=0.6))
    assert (result.exit_code, result.timed_out, result.ok, result.stdout) == (None, True, False, b"started\n")
    assert await running(sandbox, "sleep 741") == ""


@every_provider(Ability.PROGRAMS, Ability.KILLS_FAMILIES)
async def test_a_time_out_kills_what_left_the_group_too(stage: Stage) -> None:
    sandbox = await stage.open()
    script = "setsid sleep 744 & setsid sh -c 'sleep 744; true' & sleep 744"
    assert (await sandbox.exec(Launch(argv=["sh", "-c", script], timeout_s=0.4))).timed_out
    assert await running(sandbox, "sleep 744") == ""


@every_provider(Ability.PROGRAMS)
async def test_a_command_that_kills_all_it_can_is_a_result_and_the_next_one_runs(stage: Stage) -> None:
    """A model may do it, and our own harness does, to stop what is left of a run."""
    sandbox = await stage.open()
    await shell(sandbox, "setsid sleep 745 >/dev/null 2>&1 &")
    result = await sandbox.exec(Launch(argv=["/bin/sh", "-c", "kill -9 -1"], timeout_s=20))
    assert not result.timed_out
    assert (await sandbox.exec(Launch(argv=["echo", "on"]))).stdout == b"on\n"
    assert await running(sandbox, "sleep 745") == ""
    await sandbox.write("/workspace/after", b"on")
    assert await sandbox.read("/workspace/after") == b"on"


@every_provider(Ability.PROGRAMS)
async def test_a_background_process_does_not_hold_the_call(stage: Stage) -> None:
    sandbox = await stage.open()
    async with asyncio.timeout(10):
        result = await sandbox.exec(Launch(argv=["sh", "-c", "sleep 742 & echo done"], timeout_s=60))
    assert (result.exit_code, result.stdout) == (0, b"done\n")
    assert await running(sandbox, "sleep 742") == "sleep 742\n"


@every_provider(Ability.PROGRAMS)
async def test_cancelling_kills_the_command(stage: Stage) -> None:
    sandbox = await stage.open()
    started = asyncio.Event()
    script = "echo up; trap '' TERM HUP INT; sleep 743 & sleep 743"
    call = asyncio.create_task(sandbox.exec(Launch(argv=["sh", "-c", script]), lambda *_: started.set()))
    await asyncio.wait_for(started.wait(), 20)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(20):
        while await running(sandbox, "sleep 743"):  # noqa: ASYNC110 - another process's end has no event
            await asyncio.sleep(0.02)


@every_provider(Ability.PROGRAMS)
async def test_long_arguments_and_environments_arrive(stage: Stage) -> None:
    sandbox = await stage.open()
    argv = ["sh", "-c", 'echo "$# ${#1} ${#LONG}"', "sh", *["a" * 1000] * 400]
    result = await sandbox.exec(Launch(argv=argv, env={"LONG": "b" * 100_000}))
    assert result.stdout == b"400 1000 100000\n"


@every_provider(Ability.PROGRAMS)
async def test_words_reach_the_program_as_they_are(stage: Stage) -> None:
    sandbox = await stage.open()
    words = ["$HOME", "a b", "'", '"', "`id`", "", "\n", "*", "ä", "--", ";"]
    result = await sandbox.exec(Launch(argv=["printf", "[%s]", *words], env={"ODD": "$(id)\n'"}))
    assert result.stdout.decode() == "".join(f"[{word}]" for word in words)
    odd = await sandbox.exec(Launch(argv=["sh", "-c", 'printf %s "$ODD"'], env={"ODD": "$(id)\n'"}))
    assert odd.stdout == b"$(id)\n'"


@every_provider(Ability.PROGRAMS)
async def test_many_commands_at_once_do_not_mix(stage: Stage) -> None:
    sandbox = await stage.open()
    results = await asyncio.gather(*(sandbox.exec(Launch(argv=["echo", str(n)])) for n in range(20)))
    assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(20)]


# -- the model ------------------------------------------------------------------------------------------------------


@every_provider()
async def test_a_sandbox_says_what_it_enforces(stage: Stage) -> None:
    sandbox = await stage.open()
    assert sandbox.enforced.network == "none"
    assert sandbox.model_url is None
    assert sandbox.workdir == "/workspace"


@every_provider(Ability.PROGRAMS, Ability.MODEL_ONLY)
async def test_the_model_url_leads_from_inside_to_the_model_and_its_port_is_the_only_one(stage: Stage) -> None:
    async with serve_words(b"model") as model, serve_words(b"decoy") as decoy:
        sandbox = await stage.open(network=ModelOnly(host="127.0.0.1", port=model))
        assert sandbox.model_url
        found = re.fullmatch(r"http://([^/:]+|\[[^\]]+\]):(\d+)/v1", sandbox.model_url)
        assert found, sandbox.model_url
        host, port = found.groups()
        assert await asked(sandbox, host, int(port)) == "model"
        for address in {host, "127.0.0.1", "127.0.0.2"}:
            assert await asked(sandbox, address, decoy) == "refused"
        assert sandbox.enforced.network != "none"


async def asked(sandbox: Sandbox, host: str, port: int) -> str:
    """What a server says to a connection from inside."""
    program = (
        "import socket, sys\n"
        "try: print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).recv(5).decode(), end='')\n"
        "except OSError: print('refused', end='')\n"
    )
    return (await sandbox.exec(Launch(argv=["python3", "-c", program, host, str(port)]))).stdout.decode()


# -- its end --------------------------------------------------------------------------------------------------------


async def must_be_lost(sandbox: Sandbox) -> None:
    assert not await sandbox.is_alive()
    for use in (sandbox.exec(Launch(argv=["true"])), sandbox.read("/a"), sandbox.write("/a", b""), sandbox.renew()):
        with pytest.raises(SandboxLost):
            await use


@every_provider()
async def test_a_closed_sandbox_is_lost_and_closing_again_is_fine(stage: Stage) -> None:
    sandbox = await stage.open()
    assert await sandbox.is_alive()
    await asyncio.gather(sandbox.close(), sandbox.close())
    await sandbox.close()
    await must_be_lost(sandbox)


@every_provider()
async def test_one_that_vanished_is_lost_and_closing_it_is_fine(stage: Stage) -> None:
    sandbox = await stage.open()
    await stage.lose(sandbox)
    async with asyncio.timeout(20):
        while await sandbox.is_alive():  # noqa: ASYNC110 - the end of another's process has no event of ours
            await asyncio.sleep(0.02)
    await must_be_lost(sandbox)
    await sandbox.close()
    await sandbox.close()


@every_provider(Ability.PROGRAMS)
async def test_closing_ends_a_running_command_as_lost(stage: Stage) -> None:
    sandbox = await stage.open()
    started = asyncio.Event()
    call = asyncio.create_task(sandbox.exec(Launch(argv=["sh", "-c", "echo up; sleep 60"]), lambda *_: started.set()))
    await asyncio.wait_for(started.wait(), 20)
    await sandbox.close()
    with pytest.raises(SandboxLost):
        await asyncio.wait_for(call, 20)


@every_provider()
async def test_closing_survives_cancellation(stage: Stage) -> None:
    sandbox = await stage.open()
    closing = asyncio.create_task(sandbox.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await sandbox.close()
    assert not await sandbox.is_alive()


@every_provider()
async def test_renewing_a_living_sandbox_works(stage: Stage) -> None:
    sandbox = await stage.open()
    await sandbox.renew()
    assert await sandbox.is_alive()


def test_no_exit_code_is_no_success() -> None:
    assert [ExecResult(exit_code=code).ok for code in (0, 1, None)] == [True, False, False]
