"""The walls of each provider's sandboxes, with controls that show what would be seen without them.

Fourteen things are to be shown. Here: (1) the model answers from inside and (2) nothing else does; (3) no home, process
or secret of the host; (4) the system cannot be written; (5) no privilege; (6) exhaustion ends, and the sandbox answers;
(8) two leases do not meet; (10) many opened and closed leave nothing; (12) the probe refuses to attack outside; (14) no
lease where the look at the network fails. Elsewhere: (7) links and fifos, (11) time-outs and (13) everybody alike in
`tests/contract/test_sandbox.py`; (9) killed owners in `tests/contract/test_sandbox_life.py` and `test_leases.py`. The
embedded provider is probed once more in `test_local_sandbox.py`: there with a second host, in each of its flavours.
"""

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.addresses import own_addresses
from gym_core.sandbox.contract import Launch, ModelOnly, NoNetwork, Sandbox, SandboxResources
from gym_core.sandbox.lease import LeaseTable
from gym_core.sandbox.lender import Lender, LendingRules
from gym_core.sandbox.probe import Decoys
from tests.live.isolation_lab import PROBE, probe_config
from tests.sandboxes.leftovers import children_of, mounts_of_sandboxes, open_descriptors, processes_with
from tests.sandboxes.registry import real_providers
from tests.sandboxes.subject import Ability, Stage, new_id
from tests.sandboxes.words import serve_words

pytestmark = pytest.mark.live

RESOURCES = SandboxResources(memory_mib=512, workspace_mib=64, pids=64)


# -- one sandbox (1 to 6, 12) -----------------------------------------------------------------------------------------


@pytest.mark.slow
@real_providers(Ability.PROGRAMS, Ability.MODEL)
async def test_no_attack_gets_out_and_the_sandbox_answers_after_them(stage: Stage) -> None:
    secret = f"gym-isolation-{secrets.token_hex(8)}"
    decoys = Decoys()
    await decoys.open(stage.model_host)
    async with serve_words(b"model", stage.model_host) as model, holder_of(secret):
        sandbox = await stage.open(network=stage.model_at(model), resources=RESOURCES)
        assert sandbox.model_url
        assert sandbox.enforced.network == stage.network
        host, _, port = sandbox.model_url.removeprefix("http://").removesuffix("/v1").rpartition(":")
        config = {
            "model": [host, int(port)],
            "tcp": [[door.host, door.port, f"decoy at {door.host}"] for door in decoys.doors],
            "udp": [[address, 53, f"DNS of {address}"] for address in own_addresses()],
            "host_pid": os.getpid(),
            "host_file": str(PROBE),
            "secret": secret,
            "passive": False,
            **RESOURCES.model_dump(include={"memory_mib", "workspace_mib"}),
            "pids": stage.pids or RESOURCES.pids,
        }
        found = await probed(sandbox, config)
        failed = {name: why for name, (is_ok, why) in found.items() if not is_ok and name not in stage.weaker}
        assert failed == {}
        assert set(stage.weaker) <= set(found)
        assert len(found) > 50
        assert (await sandbox.exec(Launch(argv=["true"]))).ok

        control = await probe_here({**config, "model": [stage.model_host, model], "passive": True, "udp": []})
    await decoys.close()
    seen = {name for name, (is_ok, _) in control.items() if not is_ok}
    listening = {f"tcp decoy at {door.host}" for door in decoys.doors if not door.host.startswith("169.254.")}
    assert seen >= {*listening, "host process", "secret in an environment"}
    assert control["model reachable"][0]


@contextlib.asynccontextmanager
async def holder_of(secret: str) -> AsyncIterator[None]:
    """A process of this host with a key in its environment."""
    holder = await asyncio.create_subprocess_exec("sleep", "600", env={**os.environ, "POLICY_API_KEY": secret})
    try:
        yield
    finally:
        holder.kill()
        await holder.wait()


async def probed(sandbox: Sandbox, config: dict[str, object]) -> dict[str, tuple[bool, str]]:
    await sandbox.write("/home/agent/probe.py", PROBE.read_bytes())
    launch = Launch(argv=["python3", "-I", "/home/agent/probe.py", json.dumps(config)], timeout_s=180)
    result = await sandbox.exec(launch)
    assert result.ok, result
    found: dict[str, tuple[bool, str]] = json.loads(result.stdout)
    return found


async def probe_here(config: dict[str, object]) -> dict[str, tuple[bool, str]]:
    """The looks alone, without a sandbox."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(PROBE), json.dumps(config)), stdout=asyncio.subprocess.PIPE
    )
    found: dict[str, tuple[bool, str]] = json.loads((await process.communicate())[0])
    return found


def test_the_probe_refuses_to_attack_outside_a_sandbox() -> None:
    argv = [sys.executable, "-I", str(PROBE), probe_config(passive=False, secret="x")]
    refused = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 1
    assert "refused" in refused.stderr
    assert refused.stdout == ""


@real_providers(Ability.PROGRAMS)
async def test_it_answers_after_a_flood_of_output(stage: Stage) -> None:
    sandbox = await stage.open()
    launch = Launch(argv=["sh", "-c", "cat /dev/zero & cat /dev/zero >&2"], timeout_s=1, output_cap_bytes=1000)
    result = await sandbox.exec(launch)
    assert (result.timed_out, result.truncated, len(result.stdout), len(result.stderr)) == (True, True, 1000, 1000)
    assert (await sandbox.exec(Launch(argv=["echo", "still here"]))).stdout == b"still here\n"


# -- two sandboxes (8) ------------------------------------------------------------------------------------------------

SERVE = """
import socket, time
inside = socket.socket(socket.AF_UNIX)
inside.bind("\\0gym-neighbour")
inside.listen()
outside = socket.create_server(("0.0.0.0", 9731))
print(*{info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}, flush=True)
time.sleep(600)
"""
MEET = """
import socket, sys
met = []
for family, address in [(socket.AF_UNIX, "\\0gym-neighbour"), *((socket.AF_INET, (ip, 9731)) for ip in sys.argv[1:])]:
    with socket.socket(family) as connection:
        connection.settimeout(1)
        try:
            connection.connect(address)
        except OSError:
            continue
        met.append(str(address))
print(met)
"""


async def shell(sandbox: Sandbox, script: str) -> str:
    return (await sandbox.exec(Launch(argv=["sh", "-c", script]))).stdout.decode()


async def commands_seen(sandbox: Sandbox) -> str:
    return await shell(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


@real_providers(Ability.PROGRAMS)
async def test_two_leases_cannot_see_reach_or_signal_each_other(stage: Stage) -> None:
    a, b = await stage.open(), await stage.open()
    started: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        a.exec(Launch(argv=["python3", "-c", SERVE], timeout_s=120), lambda _, data: started.set_result(data))
    )
    addresses = {*(await asyncio.wait_for(started, 20)).decode().split(), "127.0.0.1"}
    await shell(a, "echo secret | tee /workspace/mine /tmp/mine /dev/shm/mine; sleep 731 >/dev/null 2>&1 &")
    assert "sleep 731" in await commands_seen(a)
    assert "sleep 731" not in await commands_seen(b)

    met = Launch(argv=["python3", "-c", MEET, *addresses])
    assert (await a.exec(met)).stdout.decode().count("gym-neighbour") == 1  # the control
    assert (await b.exec(met)).stdout == b"[]\n"
    assert await shell(b, "cat /workspace/mine /tmp/mine /dev/shm/mine 2>/dev/null") == ""
    await shell(b, "kill -9 $(seq 2 400) 2>/dev/null; kill -9 -1")
    assert "sleep 731" in await commands_seen(a)
    assert not serving.done()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


# -- many (10) --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@real_providers(Ability.PROGRAMS)
async def test_many_opened_and_closed_leave_nothing(stage: Stage) -> None:
    count = 100 if stage.provider.name == "local" else 10
    word = f"sleep-{secrets.token_hex(8)}"

    async def one() -> None:
        sandbox = await stage.provider.create(new_id(), stage.spec)
        # Its argument is a mark by which this host would see what is left.
        await sandbox.exec(Launch(argv=["sh", "-c", f"setsid sh -c 'sleep 600; true' {word} & echo hi"]))
        await sandbox.close()

    async def ten() -> None:
        await asyncio.gather(*(one() for _ in range(10)))

    await ten()  # what is kept for use by the next, such as connections to a service, is there from now on
    before, children = len(open_descriptors()), children_of(os.getpid())
    for _ in range(0, count, 10):
        await ten()
    descriptors = open_descriptors()
    assert len(descriptors) <= before + 4  # a connection more or less; a leak would be one for each
    assert [name for name in descriptors if name.startswith(("net:", "mnt:", "pid:", "user:", "ipc:"))] == []
    assert await stage.provider.list() == []
    assert (children_of(os.getpid()), processes_with(word), mounts_of_sandboxes()) == (children, [], [])


# -- the look before a lease (14) -------------------------------------------------------------------------------------


@real_providers(Ability.PROGRAMS, Ability.MODEL_ONLY)
async def test_a_sandbox_that_reaches_more_than_the_model_is_not_lent(stage: Stage) -> None:
    """Its network is told to lead to a decoy: what the look must find is then really open."""
    lender, table = lender_of(stage)
    await lender.open(NoNetwork())
    door = next(door for door in lender.doors if door.host == "127.0.0.1")
    spec = stage.spec_with(network=ModelOnly(host=door.host, port=door.port))
    with pytest.raises(SandboxUnavailable, match=f"127.0.0.1:{door.port} can be reached"):
        await lender.lend(new_id(), spec)
    assert await stage.provider.list() == []
    assert len(table) == 0
    await lender.close()


@real_providers(Ability.PROGRAMS, Ability.MODEL)
async def test_one_that_reaches_the_model_alone_is_lent_and_one_whose_model_is_silent_is_not(stage: Stage) -> None:
    lender, table = lender_of(stage)
    await lender.open(NoNetwork())
    async with serve_words(b"HTTP/1.1 200 OK\r\n\r\n", stage.model_host) as model:
        lent = await lender.lend(new_id(), stage.spec_with(network=stage.model_at(model)))
        assert await lent.sandbox.is_alive()
    with pytest.raises(SandboxUnavailable, match="did not answer"):
        await lender.lend(new_id(), stage.spec_with(network=stage.model_at(model)))
    assert len(table) == 1
    await table.stop()
    await lender.close()


def lender_of(stage: Stage) -> tuple[Lender, LeaseTable]:
    table = LeaseTable()
    rules = LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=None, weakest_network=stage.network)
    return Lender(stage.provider, rules, table), table
