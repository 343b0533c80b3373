"""A run that is killed at any moment: nothing of it is lost, doubled, wrongly scored or left behind."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator

import pytest

from gym_core.sandbox import toolkit
from tests.system import sums
from tests.system.endpoints import open_endpoints
from tests.system.house import Command, House

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not toolkit.is_built(), reason="no toolkit: run `gym sandbox build`"),
]

TASKS, REPEATS = 8, 2
PAUSE_S = 0.2
"""Of the policy's endpoint, one request at a time: a run takes a little over TASKS * REPEATS of these."""
SERVICES = ("sums_agent", "sums_server", "policy_model")
"""Killed, they are started again and the run goes on; without the others there is no run."""
VICTIMS = ("cli", "head", *SERVICES, "nursery")


@contextlib.asynccontextmanager
async def evaluation(
    house: House, *, harness: sums.Harness = "single_call", tasks: int = TASKS
) -> AsyncIterator[list[str]]:
    """Words of the command under test."""
    commands = ("python3 -c 'print(1)'",) if harness == "opencode_agent" else ()
    cases = sums.cases(tasks, commands=commands)
    config = sums.write_config(house.folder, tasks, harness=harness)
    async with open_endpoints(house, house.folder / "endpoints", cases, pause_s=PAUSE_S) as endpoints:
        yield ["eval", "run", *sums.words(config, endpoints), "--output", str(house.output), "--concurrency", "3"]


def assert_undisturbed(house: House, *, tasks: int = TASKS, repeats: int = 1) -> None:
    """The rows are those that the script implies, each once: rewards, failure kinds and what was graded."""
    found = sorted(
        (int(row["source_id"]), row["_ng_rollout_index"], row["reward"], row["failure_kind"], row["extracted_answer"])
        for row in house.rows()
    )
    assert found == [(n, r, *sums.expected_grade(n)) for n in range(tasks) for r in range(repeats)]
    coverage = house.metrics()["coverage"]
    assert (coverage["expected"], coverage["missing"], coverage["masked"]) == (tasks * repeats, 0, 0)


async def strike(command: Command, victim: str, rng: random.Random, *, longest_s: float) -> None:
    """SIGKILL a process of the gym at a random moment: of its start, one time in five, else of the run."""
    if rng.random() < 0.2:
        await command.until(lambda: victim in command.servers())
        await asyncio.sleep(rng.uniform(0, 0.3))
    else:
        await command.until(command.house.beside("_run.json").exists)
        await asyncio.sleep(rng.uniform(0, longest_s))
    servers = command.servers()
    assert victim in servers, f"{victim} is not there: {servers}"
    os.kill(servers[victim], signal.SIGKILL)


@pytest.mark.parametrize("seed", range(10))
async def test_a_killed_run_ends_as_an_undisturbed_one(house: House, seed: int) -> None:
    rng, victim = random.Random(seed), VICTIMS[seed % len(VICTIMS)]
    async with asyncio.timeout(240), evaluation(house) as words:
        words += ["--num-repeats", str(REPEATS)]
        command = house.start(*words)
        await strike(command, victim, rng, longest_s=TASKS * REPEATS * PAUSE_S * 0.7)
        groups = house.sandbox_cgroups()
        ended = await command.ended()
        if victim in ("cli", "head", "nursery"):
            assert ended.code != 0
        if rng.random() < 0.5:  # else the next one starts while the last one may still be ending
            await house.all_gone()
        for _ in range(3):
            if ended.code == 0:
                break
            ended = await house.run(*words)
        assert ended.code == 0, ended.err
        assert_undisturbed(house, repeats=REPEATS)
        await house.all_gone()
        assert house.sandbox_records() == []
        assert [group for group in groups if group.exists()] == []


@pytest.mark.parametrize("victim", SERVICES)
async def test_a_run_goes_on_by_itself_when_a_server_is_killed(house: House, victim: str) -> None:
    async with asyncio.timeout(120), evaluation(house) as words:
        command = house.start(*words, "--num-repeats", str(REPEATS))
        for rows in (2, 6):
            await command.until(lambda rows=rows: house.output.exists() and len(house.rows()) >= rows)
            await command.until(lambda: victim in command.servers())
            os.kill(command.servers()[victim], signal.SIGKILL)
        ended = await command.ended()
        assert ended.code == 0, ended.err
        assert_undisturbed(house, repeats=REPEATS)
        await house.all_gone()
        assert house.sandbox_records() == []


@pytest.mark.parametrize("victim", ["cli", *SERVICES])
async def test_a_killed_opencode_run_ends_as_an_undisturbed_one(house: House, victim: str) -> None:
    rng, tasks = random.Random(victim), 4
    async with asyncio.timeout(400), evaluation(house, harness="opencode_agent", tasks=tasks) as words:
        command = house.start(*words)
        await command.until(lambda: len(house.sandbox_records()) == 3)
        await asyncio.sleep(rng.uniform(0, 5))
        os.kill(command.servers()[victim], signal.SIGKILL)
        groups = house.sandbox_cgroups()
        ended = await command.ended(300)
        if victim == "cli":  # at once: the killed one may still be closing its sessions
            ended = await house.run(*words, timeout_s=300)
        assert ended.code == 0, ended.err
        assert_undisturbed(house, tasks=tasks)
        await house.all_gone()
        assert house.sandbox_records() == []
        assert [group for group in groups if group.exists()] == []


@pytest.mark.parametrize(
    ("signals", "is_drained"),
    [([signal.SIGINT], True), ([signal.SIGINT, signal.SIGINT], False), ([signal.SIGTERM], False)],
    ids=["one-interrupt", "two-interrupts", "terminate"],
)
async def test_an_interrupted_run_ends_with_130_and_goes_on_later(
    house: House, signals: list[signal.Signals], is_drained: bool
) -> None:
    async with asyncio.timeout(120), evaluation(house) as words:
        command = house.start(*words)
        await command.until(lambda: house.output.exists() and len(house.rows()) >= 1)
        for number in signals:
            command.signal(number)
            await asyncio.sleep(0.2)
        ended = await command.ended(30)
        assert ended.code == 130, ended.err
        await house.all_gone()
        finished = {row["_ng_rollout_id"] for row in house.rows()}
        assert 0 < len(finished) < TASKS
        assert house.rows(house.beside("_failures.jsonl")) == []
        if is_drained:
            assert len(house.captures()) == len(finished)
        again = await house.run(*words)
        assert again.code == 0, again.err
        assert finished < {row["_ng_rollout_id"] for row in house.rows()}
        assert_undisturbed(house)
        await house.all_gone()
