"""How sandboxes begin and end, and what others see of them: the part of the suite that is about providers."""

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_core.errors import SandboxError, SandboxLost, SandboxUnavailable
from gym_core.sandbox.contract import Launch, ModelOnly, Mount, NoNetwork, SandboxInfo
from gym_core.sandbox.lease import LeaseTable
from gym_core.sandbox.lender import Lender, LendingRules
from gym_core.sandbox.mounts import SharedFolder
from gym_core.sandbox.owner import Owner
from gym_core.sandbox.providers import open_provider
from tests.sandboxes.owners import of_another_pid_namespace, owner_process
from tests.sandboxes.registry import every_provider, real_providers
from tests.sandboxes.subject import Ability, Stage, new_id


async def info_of(stage: Stage, sandbox_id: str) -> SandboxInfo | None:
    return next((info for info in await stage.provider.list() if info.sandbox_id == sandbox_id), None)


@every_provider()
async def test_the_provider_can_be_checked_and_says_what_it_enforces(stage: Stage) -> None:
    enforced = await stage.provider.check()
    assert enforced.provider == stage.provider.name
    assert all(info.provider == stage.provider.name for info in await stage.provider.list())


@every_provider()
async def test_the_id_is_the_caller_s_and_metadata_is_in_the_list_until_the_end(stage: Stage) -> None:
    sandbox_id = new_id()
    sandbox = await stage.open(sandbox_id, metadata={"episode": "e-a0", "server": "grader"})
    info = await info_of(stage, sandbox_id)
    assert info
    assert {"episode": "e-a0", "server": "grader"}.items() <= info.metadata.items()
    assert (info.is_orphan, bool(info.owner)) == (False, True)
    await sandbox.close()
    assert await info_of(stage, sandbox_id) is None


@every_provider()
async def test_an_id_that_is_alive_is_not_given_twice(stage: Stage) -> None:
    sandbox = await stage.open("twice-" + new_id())
    with pytest.raises(SandboxError):
        await stage.provider.create(stage.owned[sandbox.id].id, stage.spec)
    assert await sandbox.is_alive()
    assert (await sandbox.exec(Launch(argv=["true"]))).ok


@every_provider()
async def test_a_sweep_and_closing_the_provider_keep_what_they_say(stage: Stage) -> None:
    sandboxes = [await stage.open() for _ in range(2)]
    assert (await stage.provider.sweep()).removed == []
    assert all([await sandbox.is_alive() for sandbox in sandboxes])
    await stage.provider.aclose()
    assert not any([await sandbox.is_alive() for sandbox in sandboxes])


@real_providers(Ability.LIST)
async def test_another_provider_beside_it_sees_the_living_and_leaves_them_alone(stage: Stage) -> None:
    sandbox_id = new_id()
    sandbox = await stage.open(sandbox_id, metadata={"episode": "e-a0"})
    other = open_provider(stage.block)
    try:
        infos = {info.sandbox_id: info for info in await other.list()}
        assert (infos[sandbox_id].is_orphan, infos[sandbox_id].metadata["episode"]) == (False, "e-a0")
        report = await other.sweep()
        assert sandbox_id not in report.removed
        assert report.kept >= 1
    finally:
        await other.aclose()
    assert (await sandbox.exec(Launch(argv=["true"]))).ok


@real_providers(Ability.LIST)
async def test_what_a_killed_owner_left_is_swept_once_and_a_living_neighbour_s_is_not(stage: Stage) -> None:
    theirs = [new_id() for _ in range(2)]
    mine_id = new_id()
    mine = await stage.open(mine_id)
    async with owner_process(stage, theirs) as owner:
        assert not set(theirs) & set((await stage.provider.sweep()).removed)
        assert {i.sandbox_id for i in await stage.provider.list() if not i.is_orphan} >= {*theirs, mine_id}
        owner.kill()
        await owner.wait()
        orphans = {i.sandbox_id for i in await stage.provider.list() if i.is_orphan}
        assert orphans >= set(theirs)
        assert mine_id not in orphans
        assert set((await stage.provider.sweep()).removed) >= set(theirs)
    assert not {i.sandbox_id for i in await stage.provider.list()} & set(theirs)
    assert not set(theirs) & set((await stage.provider.sweep()).removed)
    assert await mine.is_alive()


@real_providers(Ability.LIST)
async def test_an_owner_in_another_container_is_left_alone_while_he_lives_and_swept_when_he_was_killed(
    stage: Stage,
) -> None:
    """As after `docker compose restart`: his process ids mean nothing here."""
    if stage.provider.name not in ("local", "docker"):
        pytest.skip(
            "its sandboxes have nothing on this machine by which to tell; they end at their server, by their time"
        )
    his_id = new_id()
    async with owner_process(stage, [his_id], run_by=of_another_pid_namespace()) as owner:
        info = await info_of(stage, his_id)
        assert info
        known = Owner.parse(info.owner)
        assert known
        assert (known.can_be_seen, known.is_known_dead, info.is_orphan) == (False, False, False)
        assert his_id not in (await stage.provider.sweep()).removed
        owner.kill()
        await owner.wait()
        async with asyncio.timeout(20):
            while not (info := await info_of(stage, his_id)) or not info.is_orphan:  # noqa: ASYNC110 - the kernel's doing
                await asyncio.sleep(0.02)
        assert his_id in (await stage.provider.sweep()).removed
    assert await info_of(stage, his_id) is None


@real_providers()
async def test_a_creation_that_is_cancelled_leaves_nothing(stage: Stage) -> None:
    sandbox_id = new_id()
    for delay_s in (0, 0.001, 0.01, 0.03, 0.2):
        creating = asyncio.create_task(stage.provider.create(sandbox_id, stage.spec))
        await asyncio.sleep(delay_s)
        creating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await creating).close()
        assert await info_of(stage, sandbox_id) is None
    assert await (await stage.open(sandbox_id)).is_alive()


@real_providers(Ability.MODEL_ONLY)
async def test_a_model_server_by_name_is_refused(stage: Stage) -> None:
    """A name could mean another address by the time it is dialled."""
    with pytest.raises(SandboxUnavailable, match="literal address"):
        await stage.open(network=ModelOnly(host="localhost", port=1))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user can reach; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@every_provider(Ability.PROGRAMS, Ability.MOUNTS)
async def test_mounts_are_seen_inside_and_cannot_be_changed(stage: Stage, open_folder: Path) -> None:
    (open_folder / "greeting").write_text("hello")
    sandbox = await stage.open(mounts=[Mount(source=str(open_folder), target="/opt/tool")])
    script = "cat /opt/tool/greeting; touch /opt/tool/new 2>&1 | grep -o Read-only; echo x >/opt/tool/greeting"
    result = await sandbox.exec(Launch(argv=["sh", "-c", script]))
    assert result.stdout == b"helloRead-only\n"
    assert contents(open_folder) == {"greeting": "hello"}


@real_providers(Ability.PROGRAMS, Ability.MOUNTS)
async def test_a_mount_of_the_configuration_is_seen_read_only_before_a_sandbox_is_lent_and_stated(
    stage: Stage, open_folder: Path
) -> None:
    table = LeaseTable()
    lender = Lender(stage.provider, LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=None), table)
    shared = [SharedFolder(source=str(open_folder), target=target) for target in ("/data", "/workspace/with space")]
    spec = stage.spec_with(mounts=shared)
    await lender.open(NoNetwork(), trial=spec)
    lent = await lender.lend(new_id(), spec)
    assert lent.enforced.mounts == ["/data", "/workspace/with space"]
    await table.stop()
    await lender.close()


@real_providers(Ability.PROGRAMS, Ability.MISSING_MOUNTS)
async def test_a_mount_of_the_configuration_that_is_not_there_is_refused_at_the_start(
    stage: Stage, open_folder: Path
) -> None:
    lender = Lender(stage.provider, LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=None), LeaseTable())
    gone = stage.spec_with(mounts=[SharedFolder(source=str(open_folder / "nowhere"), target="/data")])
    with pytest.raises(SandboxUnavailable, match="nowhere"):
        await lender.open(NoNetwork(), trial=gone)
    await lender.close()


@every_provider(Ability.SHORT_TTL)
async def test_one_that_is_not_used_ends_by_itself(stage: Stage) -> None:
    sandbox_id = new_id()
    sandbox = await stage.open(sandbox_id, ttl_s=0.4)
    async with asyncio.timeout(20):
        while await sandbox.is_alive():  # noqa: ASYNC110 - a timer elsewhere has no event of ours
            await asyncio.sleep(0.05)
    with pytest.raises(SandboxLost):
        await sandbox.exec(Launch(argv=["true"]))
    async with asyncio.timeout(20):  # what is left of one that is dead goes a moment later
        while await info_of(stage, sandbox_id):
            await stage.provider.sweep()


@every_provider(Ability.SHORT_TTL, Ability.PROGRAMS)
async def test_use_and_renewal_keep_it(stage: Stage) -> None:
    sandbox = await stage.open(ttl_s=0.6)
    assert (await sandbox.exec(Launch(argv=["sleep", "1"]))).ok
    for _ in range(4):
        await asyncio.sleep(0.3)
        await sandbox.renew()
    assert await sandbox.is_alive()
