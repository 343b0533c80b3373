"""Decides whether isolation can be had by making a sandbox and pushing at its walls; settings are not believed."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.box.layout import inside_port
from gym_core.sandbox.contract import Launch, ModelOnly, Sandbox, SandboxResources, SandboxSpec
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement

Create = Callable[[SafeId, SandboxSpec], Awaitable[Sandbox]]

_PUSH = """
import socket, sys
model, decoy = map(int, sys.argv[1:])
with socket.create_connection(("127.0.0.1", model), 5) as connection:
    if connection.recv(5) != b"model":
        sys.exit("the model server cannot be reached from inside")
for address in ("127.0.0.1", "127.0.0.2"):
    try:
        socket.create_connection((address, decoy), 2)
    except OSError:
        continue
    sys.exit(f"another port of this host can be reached from inside at {address}")
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file)
if int(status["CapEff"], 16) or status["Seccomp"].strip() != "2":
    sys.exit("a command inside has capabilities or no filter")
"""


async def try_out(create: Create, *, python: str) -> SandboxEnforcement:
    """`python` is the path of an interpreter inside. Raises SandboxUnavailable: none made, or a wall gave way."""
    model, decoy = await _serve(b"model"), await _serve(b"decoy")
    async with model, decoy:
        model_port, decoy_port = (server.sockets[0].getsockname()[1] for server in (model, decoy))
        network = ModelOnly(host="127.0.0.1", port=model_port)
        resources = SandboxResources(memory_mib=256, workspace_mib=16, pids=64)
        sandbox = await create(f"check-{secrets.token_hex(4)}", SandboxSpec(network=network, resources=resources))
        try:
            ports = [str(inside_port(network)), str(decoy_port)]
            pushed = await sandbox.exec(Launch(argv=[python, "-I", "-c", _PUSH, *ports], timeout_s=30))
            if not pushed.ok:
                raise SandboxUnavailable(f"local sandboxes: a wall gave way: {pushed.stderr.decode(errors='replace')}")
            return sandbox.enforced
        finally:
            await sandbox.close()


async def _serve(word: bytes) -> asyncio.Server:
    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        writer.close()

    return await asyncio.start_server(say, "127.0.0.1", 0)
