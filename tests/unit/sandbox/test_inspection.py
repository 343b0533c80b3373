"""The look at a provider by one sandbox of it: what it tells, and which step it names when one fails."""

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.addresses import own_addresses
from gym_core.sandbox.contract import ExecResult, Launch, SandboxSpec
from gym_core.sandbox.inspection import inspect
from gym_core.sandbox.providers.opensandbox import OpenSandboxProvider
from tests.fakes.opensandbox import MemoryInside, open_opensandbox
from tests.fakes.sandbox import FakeProvider, FakeSandbox
from tests.sandboxes.opensandbox import settings_for

ANSWERED = b"model HTTP/1.0 200 OK\nshut\n"


def provider_that(*, sees: bytes = ANSWERED, programs: ExecResult) -> FakeProvider:
    def run(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
        return ExecResult(exit_code=0, stdout=sees) if launch.argv[0] == "bash" else programs

    return FakeProvider(run)


async def test_it_tells_what_answered_what_was_shut_and_what_runs() -> None:
    provider = provider_that(programs=ExecResult(exit_code=0, stdout=b"1.17.11\nPython 3.11\n"))
    found = await inspect(provider, SandboxSpec(), model_host="127.0.0.1")
    assert (found.enforced.network, found.programs) == ("exact_port", ["1.17.11", "Python 3.11"])
    assert {"169.254.169.254:80"} < set(found.shut)
    assert any(door.startswith("127.0.0.1:") for door in found.shut)
    assert found.model_url.startswith("http://127.0.0.1:")
    assert all(sandbox.closed for sandbox in provider.sandboxes.values())


@pytest.mark.parametrize(
    ("sees", "programs", "said"),
    [
        (b"open 127.0.0.1 81\n" + ANSWERED, ExecResult(exit_code=0), "127.0.0.1:81 can be reached"),
        (b"shut\n", ExecResult(exit_code=0), "did not answer"),
        (ANSWERED, ExecResult(exit_code=127, stderr=b"opencode: not found"), "opencode: not found.*gym sandbox build"),
    ],
)
async def test_the_step_that_failed_is_named_and_nothing_stays(sees: bytes, programs: ExecResult, said: str) -> None:
    provider = provider_that(sees=sees, programs=programs)
    with pytest.raises(SandboxUnavailable, match=said):
        await inspect(provider, SandboxSpec(), model_host="127.0.0.1")
    assert [sandbox.closed for sandbox in provider.sandboxes.values()] == [True]


async def test_an_address_of_another_machine_is_refused_with_words() -> None:
    with pytest.raises(SandboxUnavailable, match=r"nothing can listen on 192\.0\.2\.1"):
        await inspect(FakeProvider(), SandboxSpec(), model_host="192.0.2.1")


async def test_a_sandbox_of_an_opensandbox_server_is_inspected_with_the_real_sdk() -> None:
    host = next(iter(own_addresses()), None)
    if host is None:
        pytest.skip("this machine has no address but loopback, and a sandbox elsewhere needs one")

    def run(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
        return ExecResult(exit_code=0, stdout=ANSWERED if launch.argv[0] == "bash" else b"OpenCode 1.17.11\n")

    async def inside(name: str, body: dict[str, object]) -> MemoryInside:
        return MemoryInside(run)

    async with open_opensandbox(inside) as server:
        provider = OpenSandboxProvider(settings_for(server))
        try:
            found = await inspect(provider, SandboxSpec(), model_host=host)
            assert (found.enforced.provider, found.programs) == ("opensandbox", ["OpenCode 1.17.11"])
            # An address that is let through as a whole is not tried at another port; the others are.
            assert found.enforced.network in ("host", "exact_port")
            assert ("169.254.169.254:80" in found.shut, found.model_url.startswith("http://")) == (True, True)
            assert await provider.list() == []
        finally:
            await provider.aclose()
