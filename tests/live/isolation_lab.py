"""The world around an isolation probe: namespaces of its own with decoy servers, a sandbox, and a control without one.

    POLICY_API_KEY=secret python -m tests.live.isolation_lab DIR [--as-nobody] [--no-bwrap-on-path] [--no-filter]

Makes a network and a mount namespace for itself first, and refuses to go on where anything leads outside: the addresses
of a cloud's metadata service and of a second interface can then be ours. Prints {"sandbox": {check: [is_ok, why]},
"control": {...}, "enforced": {...}}.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401 - now, while the standard library may be read; see become_nobody
import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from unittest import mock

from gym_core.sandbox.contract import Launch, ModelOnly, SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig

PROBE = Path(__file__).with_name("isolation_probe.py")
NOBODY = 65534
HOST, SECOND_HOST, METADATA = "198.18.0.1", "198.18.0.2", "169.254.169.254"
MODEL_PORT, ALL_PORT, LOOPBACK_PORT, IPV6_PORT, HTTP_PORT, DNS_PORT = 9001, 9002, 9003, 9004, 8080, 5353
RESOURCES = SandboxResources(memory_mib=512, workspace_mib=64, pids=64, cpu=1)

_CLONE_NEWNET, _CLONE_NEWNS = 0x40000000, 0x00020000
_PR_SET_DUMPABLE = 4
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18


def enter_own_world() -> None:
    """Needs CAP_SYS_ADMIN. `unshare` of the network leaves only a loopback of our own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        sys.exit(f"no namespaces of our own: {os.strerror(ctypes.get_errno())}")
    for words in ("link set lo up", *(f"addr add {address}/32 dev lo" for address in (HOST, SECOND_HOST, METADATA))):
        subprocess.run(["ip", *words.split()], check=True)
    must_be_closed()


def must_be_closed() -> None:
    routes = subprocess.run(["ip", "route", "show", "default"], capture_output=True, text=True, check=True).stdout
    if routes.strip() or len(socket.if_nameindex()) != 1:
        sys.exit("refused: this network leads outside")


def answer_datagrams(address: str, port: int) -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, port))
    loop = asyncio.get_running_loop()
    loop.add_reader(server, lambda: server.sendto(b"answer", server.recvfrom(100)[1]))


async def open_servers() -> None:
    async def model(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"model")
        writer.close()

    async def decoy(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"decoy")
        writer.close()

    await asyncio.start_server(model, HOST, MODEL_PORT)
    for address, port in (
        ("0.0.0.0", ALL_PORT),
        ("127.0.0.1", LOOPBACK_PORT),
        ("::1", IPV6_PORT),
        (METADATA, HTTP_PORT),
        (SECOND_HOST, MODEL_PORT),
    ):
        await asyncio.start_server(decoy, address, port)
    for address in (HOST, "127.0.0.1"):
        answer_datagrams(address, DNS_PORT)
    await asyncio.start_unix_server(decoy, "\0gym-isolation-probe")


def probe_config(*, passive: bool, secret: str) -> str:
    return json.dumps(
        {
            "model": [HOST if passive else "127.0.0.1", MODEL_PORT],
            "tcp": [
                [HOST, ALL_PORT, "other port of the model's host"],
                [SECOND_HOST, MODEL_PORT, "the model's port of a second host"],
                [SECOND_HOST, ALL_PORT, "other port of a second host"],
                ["127.0.0.1", LOOPBACK_PORT, "loopback server"],
                ["127.0.0.1", ALL_PORT, "server on all addresses, by loopback"],
                ["127.0.0.2", ALL_PORT, "second loopback address"],
                [METADATA, HTTP_PORT, "metadata address"],
                ["::1", IPV6_PORT, "IPv6 loopback"],
            ],
            "udp": [[HOST, DNS_PORT, "DNS of the model's host"], ["127.0.0.1", DNS_PORT, "DNS on loopback"]],
            "host_pid": os.getpid(),
            "host_file": str(PROBE),
            "secret": secret,
            "passive": passive,
            **RESOURCES.model_dump(include={"memory_mib", "workspace_mib", "pids"}),
        }
    )


async def probe_sandbox() -> dict[str, object]:
    provider = LocalProvider(LocalSandboxConfig(state_dir=f"{sys.argv[1]}/boxes"))
    try:
        spec = SandboxSpec(network=ModelOnly(host=HOST, port=MODEL_PORT), resources=RESOURCES)
        sandbox = await provider.create("probe", spec)
        await sandbox.write("/home/agent/probe.py", PROBE.read_bytes())
        argv = [
            "/usr/bin/python3",
            "-I",
            "/home/agent/probe.py",
            probe_config(passive=False, secret=os.environ["POLICY_API_KEY"]),
        ]
        result = await sandbox.exec(Launch(argv=argv, timeout_s=120))
        if not result.ok:
            sys.exit(f"the probe ended badly: {result}")
        checks = json.loads(result.stdout)
        after = await sandbox.exec(Launch(argv=["true"]))
        checks["answers after the attacks"] = [after.ok, str(after)]
        return {"sandbox": checks, "enforced": sandbox.enforced.model_dump()}
    finally:
        await provider.aclose()


async def probe_control() -> dict[str, object]:
    argv = ["/usr/bin/python3", "-I", str(PROBE), probe_config(passive=True, secret=os.environ["POLICY_API_KEY"])]
    control = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    stdout, _ = await control.communicate()
    return {"control": json.loads(stdout)}


async def main() -> None:
    await open_servers()
    print(json.dumps({**await probe_sandbox(), **await probe_control()}))


def become_nobody() -> None:
    """As when an ordinary user runs the gym: no uid to drop to, no control groups."""
    os.chown(sys.argv[1], NOBODY, NOBODY)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # or the control could not look at this process


def hide_bwrap(folder: Path) -> None:
    """A PATH with what the provider needs, but for bubblewrap: it must then take the wheel's."""
    folder.mkdir()
    for name in ("setpriv", "ip"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    os.environ["PATH"] = str(folder)


def let_every_call_pass() -> None:
    """A control: with a filter that allows everything, the checks that rely on it must fail."""
    allow = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
    mock.patch("gym_core.sandbox.providers.local.host.seccomp_filter", return_value=allow).start()


if __name__ == "__main__":
    enter_own_world()
    if "--no-bwrap-on-path" in sys.argv:
        hide_bwrap(Path(sys.argv[1], "path"))
    if "--as-nobody" in sys.argv:
        become_nobody()
    if "--no-filter" in sys.argv:
        let_every_call_pass()
    asyncio.run(main())
