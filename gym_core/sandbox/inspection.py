"""One sandbox, made as a rollout's would be and looked at from inside: what `gym sandbox check` shows of a provider."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import Launch, ModelOnly, SandboxProvider, SandboxSpec
from gym_core.sandbox.lender import must_be_tight
from gym_core.sandbox.mounts import must_be_read_only
from gym_core.sandbox.probe import Decoys
from gym_core.types.session import SandboxEnforcement

_PROGRAMS = """
printf 'OpenCode '
opencode --version && rg --version | head -n 1 && python3 -c '
import platform, PIL, av, cv2, matplotlib, numpy, scipy
print("Python", platform.python_version(), "with pillow, opencv, numpy, scipy, matplotlib, av")'
"""
_ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"
_TTL_S = 300.0


@dataclass(frozen=True)
class Inspection:
    enforced: SandboxEnforcement
    model_url: str
    """Where the stand-in of a model server answered from inside."""
    shut: list[str]
    """`host:port` of what was tried from inside and did not let in."""
    programs: list[str]
    """What the programs of a sandbox said of themselves."""


async def inspect(provider: SandboxProvider, spec: SandboxSpec, *, model_host: str) -> Inspection:
    """`model_host` is an address of this machine that a sandbox may be let to. Raises SandboxUnavailable saying which
    of the steps failed; nothing is left then either."""
    await provider.check()
    decoys = Decoys()
    async with _model_server(model_host) as network:
        await decoys.open(model_host)
        try:
            asked = spec.model_copy(update={"network": network, "ttl_s": _TTL_S})
            sandbox = await provider.create(f"check-{secrets.token_hex(4)}", asked)
            try:
                # Weaker than an exact port is told, and lent only where the configuration accepts it.
                tried = await must_be_tight(sandbox, network, decoys.doors, weakest="host")
                mounts = await must_be_read_only(sandbox, asked.mounts)
                ran = await sandbox.exec(Launch(argv=["/bin/sh", "-c", _PROGRAMS], timeout_s=120))
                said = (ran.stdout if ran.ok else ran.stderr or ran.stdout).decode("utf-8", "replace").strip()
                if not ran.ok:
                    raise SandboxUnavailable(
                        f"a program that sandboxes need does not run inside: {said[-500:] or 'without a word'}; "
                        "`gym sandbox build` makes what has them all, with `--provider docker` as an image"
                    )
                return Inspection(
                    enforced=sandbox.enforced.model_copy(update={"mounts": mounts}),
                    model_url=sandbox.model_url or "",
                    shut=[f"{door.host}:{door.port}" for door in tried],
                    programs=said.splitlines(),
                )
            finally:
                await sandbox.close()
        finally:
            await decoys.close()


@asynccontextmanager
async def _model_server(host: str) -> AsyncIterator[ModelOnly]:
    """Answers whatever it is asked, as the policy server does `/livez`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                await reader.readline()
                writer.write(_ANSWER)
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            return
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, host, 0)
    except OSError as error:
        raise SandboxUnavailable(f"nothing can listen on {host} of this machine: {error.strerror}") from error
    async with server:
        yield ModelOnly(host=host, port=server.sockets[0].getsockname()[1])
