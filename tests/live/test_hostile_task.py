"""A task that means harm, in each provider's sandboxes: contained, told, and the neighbours and we live on."""

import asyncio
import contextlib
import json
import resource
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym_core.sandbox.addresses import own_addresses
from gym_core.sandbox.contract import ExecResult, Launch, Sandbox, SandboxResources
from tests.fakes.lending import open_lender
from tests.sandboxes.leftovers import processes_with
from tests.sandboxes.registry import real_providers
from tests.sandboxes.subject import Ability, Stage
from tests.sandboxes.words import serve_words

pytestmark = [pytest.mark.live, pytest.mark.slow]

TASK = Path(__file__).with_name("hostile_task.py")
PERMIT = "/workspace/.gym-hostile-task-may-run-here"
INSIDE = "/home/agent/task.py"
EMPTY = "rm -f /workspace/full /tmp/full /home/agent/full /dev/shm/full"
RESOURCES = SandboxResources(cpu=1, memory_mib=256, workspace_mib=32, pids=64)


async def admit(sandbox: Sandbox) -> Sandbox:
    await sandbox.write(INSIDE, TASK.read_bytes())
    await sandbox.write(PERMIT, b"")
    return sandbox


async def attack(sandbox: Sandbox, *words: str, timeout_s: float = 60, cap: int = 1 << 16) -> ExecResult:
    launch = Launch(argv=["python3", "-I", INSIDE, *words], timeout_s=timeout_s, output_cap_bytes=cap)
    async with asyncio.timeout(timeout_s + 60):
        return await sandbox.exec(launch)


async def must_answer(sandbox: Sandbox) -> None:
    """Time and again: a killed crowd of processes may need a moment to be gone."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(Exception):
                if (await sandbox.exec(Launch(argv=["echo", "here"], timeout_s=10))).stdout == b"here\n":
                    return
            await asyncio.sleep(0.1)


def test_it_refuses_to_do_harm_outside_a_sandbox() -> None:
    for word in ("links", "forks", "memory", "disk", "flood", "daemons"):
        argv = [sys.executable, "-I", str(TASK), word, *(["x"] if word == "daemons" else [])]
        refused = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "refused" in refused.stderr


@contextlib.asynccontextmanager
async def doors_of_this_host() -> AsyncIterator[list[tuple[str, int]]]:
    """Servers that a scan of the host would find."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for host in ("127.0.0.1", "127.0.0.2", "::1", *own_addresses()):
            with contextlib.suppress(OSError):
                found.append((host, await stack.enter_async_context(serve_words(b"decoy", host))))
        yield found


@real_providers(Ability.PROGRAMS, Ability.MODEL)
async def test_a_scan_of_the_host_finds_the_model_and_nothing_else(stage: Stage) -> None:
    async with (
        serve_words(b"model", stage.model_host) as model,
        doors_of_this_host() as open_doors,
        open_lender() as lender,
    ):
        sandbox = await stage.open(network=stage.model_at(model))
        other = lender.lend(await stage.open())
        lenders_port = int(lender.url.rsplit(":", 1)[1])
        await sandbox.write(INSIDE, TASK.read_bytes())
        hosts = {host for host, _ in open_doors}
        guesses = [
            *((host, port) for host in hosts for port in (lenders_port, 22, 80, 2375, 8000, 8080, 44772, 18080)),
            *((f"172.17.0.{n}", 44772) for n in range(1, 17)),  # daemons of neighbours, where there are any
            ("169.254.169.254", 80),
            ("100.100.100.200", 80),
        ]
        doors = [*open_doors, *guesses]
        seen = await attack(sandbox, "look", json.dumps(doors))
        beside = [list(door) for door in open_doors if stage.open_beside and door[0] == stage.model_host]
        assert json.loads(seen.stdout) == {"reached": beside}

        # The control: the same look from outside finds every one of those that are open.
        outside = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(TASK), "look", json.dumps(doors)), stdout=asyncio.subprocess.PIPE
        )
        reached = json.loads((await outside.communicate())[0])["reached"]
        assert {*open_doors, ("127.0.0.1", lenders_port)} <= {(host, port) for host, port in reached}
        assert (await other.exec(Launch(argv=["true"]))).ok


@real_providers(Ability.PROGRAMS)
async def test_links_and_fifos_in_the_way_of_uploads_and_reads_lead_nowhere(stage: Stage) -> None:
    sandbox = await admit(await stage.open(resources=RESOURCES))
    assert (await attack(sandbox, "links")).ok
    for name in ("answer.png", "environ.png", "endless", f"images{TASK}"):
        with pytest.raises((OSError, ValueError)):
            await sandbox.read(f"/workspace/{name}")
    async with asyncio.timeout(20):
        for name in ("pipe.png", "zero.png", "folder.png"):
            with pytest.raises(ValueError, match="regular"):
                await sandbox.read(f"/workspace/{name}")
        for name in ("answer.png", "pipe.png", "endless", "zero.png"):
            await sandbox.write(f"/workspace/{name}", b"picture")
            assert await sandbox.read(f"/workspace/{name}") == b"picture"
        with pytest.raises(OSError, match="Read-only|denied"):
            await sandbox.write("/workspace/tools/sh", b"#!/bin/true")
        with pytest.raises(IsADirectoryError):
            await sandbox.write("/workspace/folder.png", b"picture")


@real_providers(Ability.PROGRAMS)
async def test_a_fork_bomb_is_bounded_and_ends_with_its_time(stage: Stage) -> None:
    sandbox, neighbour = await admit(await stage.open(resources=RESOURCES)), await stage.open()
    bombing = asyncio.create_task(attack(sandbox, "forks", timeout_s=3))
    await asyncio.sleep(1.5)
    start = time.monotonic()
    assert (await neighbour.exec(Launch(argv=["true"], timeout_s=30))).ok
    assert time.monotonic() - start < 20
    result = await bombing
    assert (result.exit_code, result.timed_out, result.ok) == (None, True, False)
    await sandbox.close()
    assert (await neighbour.exec(Launch(argv=["true"]))).ok
    assert await neighbour.is_alive()


@real_providers(Ability.PROGRAMS)
async def test_a_memory_hog_is_killed_or_refused_and_the_sandbox_answers(stage: Stage) -> None:
    sandbox = await admit(await stage.open(resources=RESOURCES))
    result = await attack(sandbox, "memory")
    if result.ok:
        assert json.loads(result.stdout)["refused_after_mib"] <= RESOURCES.memory_mib * 8
    else:
        assert (result.signal, result.exit_code) in ((9, None), (None, 137))
    await must_answer(sandbox)


@real_providers(Ability.PROGRAMS)
async def test_filling_every_folder_ends_and_the_system_s_take_nothing(stage: Stage) -> None:
    sandbox = await admit(await stage.open(resources=RESOURCES.model_copy(update={"memory_mib": 2048})))
    result = await attack(sandbox, "disk")
    written = json.loads(result.stdout)["written_mib"]
    assert written["/workspace"] <= RESOURCES.workspace_mib
    assert not {"/", "/dev"} & written.keys()
    assert sum(written.values()) < 2048
    await must_answer(sandbox)
    await sandbox.exec(Launch(argv=["sh", "-c", EMPTY]))
    await sandbox.write("/workspace/answer.txt", bytes(1 << 20))


@real_providers(Ability.PROGRAMS, Ability.SIZED_WORKSPACE)
async def test_a_full_disk_is_the_sandbox_s_own(stage: Stage) -> None:
    sandbox = await admit(await stage.open(resources=RESOURCES.model_copy(update={"memory_mib": 2048})))
    await attack(sandbox, "disk")
    with pytest.raises(OSError, match="space"):
        await sandbox.write("/workspace/answer.txt", bytes(1 << 20))
    await sandbox.exec(Launch(argv=["sh", "-c", EMPTY]))
    await sandbox.write("/workspace/answer.txt", bytes(1 << 20))


@real_providers(Ability.PROGRAMS)
async def test_a_gigabyte_of_output_is_read_and_dropped_past_the_cap(stage: Stage) -> None:
    sandbox = await admit(await stage.open(resources=RESOURCES))
    await must_answer(sandbox)  # what a first command takes is not the flood's
    before = peak_mib()
    result = await attack(sandbox, "flood", timeout_s=240, cap=100_000)
    assert (result.truncated, len(result.stdout), len(result.stderr)) == (True, 100_000, 100_000)
    assert result.exit_code == 0
    assert peak_mib() - before < 64
    await must_answer(sandbox)


def peak_mib() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@real_providers(Ability.PROGRAMS)
async def test_daemons_outlive_their_command_and_not_their_sandbox(stage: Stage) -> None:
    sandbox = await admit(await stage.open(resources=RESOURCES))
    word = f"daemon-{secrets.token_hex(8)}"
    start = time.monotonic()
    result = await attack(sandbox, "daemons", word, timeout_s=50)
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"left": 3})
    assert time.monotonic() - start < 30
    assert len(processes_with(word)) >= 3
    await sandbox.close()
    async with asyncio.timeout(20):
        while processes_with(word):  # noqa: ASYNC110 - the kernel's doing has no event of ours
            await asyncio.sleep(0.05)
