"""What OpenSandbox daemons, and what stands before them, were seen to do to commands and files."""

import asyncio

import pytest

from gym_core.errors import SandboxError, SandboxLost
from gym_core.sandbox.contract import Launch, SandboxSpec
from gym_core.sandbox.providers.opensandbox.sdk import Order, Service, ServiceFault
from tests.fakes.opensandbox.server import API_KEY
from tests.sandboxes.opensandbox import IMAGE, settings_for
from tests.sandboxes.subject import SMALL
from tests.unit.sandbox.opensandbox.conftest import Scene

TRUE = Launch(argv=["true"])


async def test_a_stream_that_ends_before_the_command_is_an_error_and_the_command_is_interrupted(scene: Scene) -> None:
    sandbox = await scene.open()
    scene.server.faults.streams_cut = 1
    with pytest.raises(SandboxError, match="stream ended before") as caught:
        await sandbox.exec(TRUE)
    assert not isinstance(caught.value, SandboxLost)
    assert len(scene.server.records[sandbox.remote_id].daemon.interrupted) == 1
    assert (await sandbox.exec(TRUE)).ok


async def test_a_broken_stream_of_a_sandbox_that_is_gone_is_a_lost_sandbox(scene: Scene) -> None:
    sandbox = await scene.open()
    await scene.server.vanish(sandbox.remote_id)
    with pytest.raises(SandboxLost, match="no more"):
        await sandbox.exec(TRUE)
    assert not await sandbox.is_alive()


async def test_a_courier_that_fails_is_an_error_that_says_what_it_said(scene: Scene) -> None:
    sandbox = await scene.open()
    scene.server.faults.exit_code, scene.server.faults.stderr = 127, "python3: not found"
    with pytest.raises(SandboxError, match="127.*python3: not found"):
        await sandbox.exec(TRUE)


@pytest.mark.parametrize("code", [-9, 137, -1])
async def test_a_command_that_kills_its_courier_too_is_a_result(scene: Scene, code: int) -> None:
    sandbox = await scene.open()
    await sandbox.write("/workspace/a", b"content")
    scene.server.faults.exit_code, scene.server.faults.streams_mute = code, 2
    result = await sandbox.exec(TRUE)
    assert (result.exit_code, result.signal, result.ok) == (None, 9, False)
    with pytest.raises(SandboxError, match="nobody knows how"):
        await sandbox.read("/workspace/a")


async def test_commands_are_the_user_s_and_uploads_leave_nothing(scene: Scene) -> None:
    sandbox = await scene.open()
    await sandbox.write("/workspace/a", b"content")
    await sandbox.exec(TRUE)
    assert scene.server.records[sandbox.remote_id].daemon.uids == {1000}
    assert list(scene.insides[-1].sandbox.files) == ["/workspace/a"]


async def test_output_that_the_courier_did_not_write_is_an_error(scene: Scene) -> None:
    sandbox = await scene.open()
    scene.server.faults.nonsense = 1
    with pytest.raises(SandboxError, match="not a frame: 'hello, world'"):
        await sandbox.exec(TRUE)


async def test_a_silent_stream_ends_by_a_deadline_of_our_own(scene: Scene) -> None:
    service = Service(settings_for(scene.server), slack_s=0.05)
    order = Order(image=IMAGE, ttl_s=60, resources=SMALL, labels={}, allowed_address=None, mounts=())
    remote = await service.create(order)
    scene.server.faults.silent = 1
    with pytest.raises(ServiceFault, match="no answer within"):
        await remote.run(["python3", "-I", "-c", "", '{"op": "look"}'], timeout_s=0.05, on_text=lambda text: None)
    assert len(scene.server.records[remote.id].daemon.interrupted) == 1
    await service.aclose()


async def test_a_cancelled_command_is_interrupted_as_soon_as_its_id_is_known(scene: Scene) -> None:
    sandbox = await scene.open()
    scene.server.faults.silent = 1
    call = asyncio.create_task(sandbox.exec(TRUE))
    daemon = scene.server.records[sandbox.remote_id].daemon
    known = set(daemon.commands)
    while not set(daemon.commands) - known:  # noqa: ASYNC110 - the faked server has no event for it
        await asyncio.sleep(0.002)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(daemon.interrupted) == 1


@pytest.mark.parametrize("fault", ["uploads_lost", "uploads_cut"])
async def test_an_upload_that_did_not_arrive_whole_is_made_again_once(scene: Scene, fault: str) -> None:
    sandbox = await scene.open()
    setattr(scene.server.faults, fault, 1)
    await sandbox.write("/workspace/a", b"0123456789")
    assert await sandbox.read("/workspace/a") == b"0123456789"
    setattr(scene.server.faults, fault, 2)
    with pytest.raises(SandboxError, match="did not arrive whole"):
        await sandbox.write("/workspace/a", b"abcdefghij")
    assert await sandbox.read("/workspace/a") == b"0123456789"


async def test_a_file_larger_than_the_workspace_finds_no_space(scene: Scene) -> None:
    sandbox = await scene.open(resources=SMALL)
    with pytest.raises(OSError, match="No space"):
        await sandbox.write("/workspace/a", bytes((16 << 20) + 1))


@pytest.mark.parametrize("use_server_proxy", [False, True])
@pytest.mark.parametrize("data_prefix", [False, True])
async def test_the_api_key_reaches_sandboxes_only_through_the_server(
    scene: Scene, use_server_proxy: bool, data_prefix: bool
) -> None:
    scene.server.data_prefix = data_prefix
    sandbox = await scene.provider(use_server_proxy=use_server_proxy).create("box", SandboxSpec())
    content = bytes(range(256)) * 500
    await sandbox.write("/workspace/a", content, mode=0o640)
    assert (await sandbox.exec(Launch(argv=["cat", "/workspace/a"]))).stdout == content
    assert scene.insides[-1].sandbox.modes["/workspace/a"] == 0o640
    seen = scene.server.records[sandbox.remote_id].daemon.keys_seen
    assert seen == ({API_KEY} if use_server_proxy else set())


async def test_a_daemon_that_has_no_process_left_is_no_lost_sandbox(scene: Scene) -> None:
    """Commands can use up what it needs; that the server has the sandbox is another's word."""
    sandbox = await scene.open()
    scene.server.broken_at = "[A-Z]+ inside/.*"
    with pytest.raises(SandboxError) as caught:
        await sandbox.exec(TRUE)
    assert not isinstance(caught.value, SandboxLost)
    await sandbox.renew()
    assert not await sandbox.is_alive()
    scene.server.broken_at = None
    assert (await sandbox.exec(TRUE)).ok
