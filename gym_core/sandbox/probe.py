"""The look at a sandbox's network from inside, before it is lent: what it must reach answers, and decoys do not.

Settings are not believed, a provider's least of all. The look needs nothing inside but bash.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.addresses import own_addresses
from gym_core.sandbox.contract import Launch, Sandbox

_METADATA = "169.254.169.254"
"""Where clouds hand out a machine's credentials."""

_DECOY_TIMEOUT_S = 1
"""A firewall that drops packets makes every lease wait so long; one that refuses makes none wait."""
_MODEL_TIMEOUT_S = 10
_LOOK_TIMEOUT_S = 30.0
_MAX_ANSWER_BYTES = 4096
_NO_PROGRAM = 127

# Each door is tried by a process of its own, whose word comes back by a pipe; meanwhile the model server is asked.
_LOOK = f"""
host=$1 port=$2; shift 2
exec 4<> <(:)
tries=()
while [ $# -gt 0 ]; do
    {{ if exec 3<>"/dev/tcp/$1/$2"; then echo "open $1 $2" >&4; else echo shut >&4; fi; }} 2>/dev/null &
    tries+=($!)
    shift 2
done
if [ "$host" ]; then
    exec 3<>"/dev/tcp/$host/$port" && printf 'GET /livez HTTP/1.0\\r\\n\\r\\n' >&3
    IFS= read -r -t {_MODEL_TIMEOUT_S} answer <&3 && echo "model $answer"
fi
for _ in "${{tries[@]}}"; do
    IFS= read -r -t {_DECOY_TIMEOUT_S} word <&4 || break
    echo "$word"
done
kill "${{tries[@]}}" 2>/dev/null
exit 0
"""
_ANSWERED = re.compile(r"^model HTTP/\d", re.MULTILINE)
_OPEN = re.compile(r"^open (\S+) (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Door:
    """An address and a port that must be closed to a sandbox."""

    host: str
    port: int


class Decoys:
    """Listeners on addresses of this host, which close at once and hold nothing: a sandbox that reaches one is open."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._doors: list[Door] = []

    @property
    def doors(self) -> Sequence[Door]:
        """Beside the decoys, the address of a cloud's metadata service."""
        return (*self._doors, Door(_METADATA, 80))

    async def open(self, model_host: str | None) -> None:
        """One on the model server's address, if that is this host's, and one on each other address of this host."""
        addresses = await asyncio.to_thread(own_addresses)
        for host in dict.fromkeys([*([model_host] if model_host else []), "127.0.0.1", *addresses]):
            try:
                server = await asyncio.start_server(_hang_up, host, 0)
            except OSError:  # not this host's address
                continue
            self._servers.append(server)
            self._doors.append(Door(host, server.sockets[0].getsockname()[1]))

    async def close(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()
        self._servers.clear()
        self._doors.clear()


async def must_be_closed(sandbox: Sandbox, doors: Sequence[Door]) -> None:
    """Of `doors` none may be reached from inside; the model server, where there is one, must answer.

    About 6 ms in an embedded sandbox. Raises SandboxUnavailable saying what was seen.
    """
    parts = urlsplit(sandbox.model_url or "")
    model = [parts.hostname or "", str(parts.port or 80)]
    words = [word for door in doors for word in (door.host, str(door.port))]
    launch = Launch(
        argv=["bash", "-c", _LOOK, "look", *model, *words],
        timeout_s=_LOOK_TIMEOUT_S,
        output_cap_bytes=_MAX_ANSWER_BYTES,
    )
    seen = await sandbox.exec(launch)
    output = seen.stdout.decode("utf-8", "replace")
    where = f"sandbox {sandbox.id!r} is not lent"
    if opened := _OPEN.findall(output):
        doors_seen = ", ".join(f"{host}:{port}" for host, port in opened)
        raise SandboxUnavailable(f"{where}: from inside, {doors_seen} can be reached, which must not be")
    if seen.exit_code == _NO_PROGRAM:
        raise SandboxUnavailable(f"{where}: its network cannot be looked at: there is no bash in it")
    if sandbox.model_url and not (seen.ok and _ANSWERED.search(output)):
        how = "in time" if seen.timed_out else f"(exit code {seen.exit_code}, {output[:200]!r})"
        raise SandboxUnavailable(f"{where}: from inside, the model server at {sandbox.model_url} did not answer {how}")
    if not seen.ok:
        reason = seen.stderr.decode("utf-8", "replace")[:200]
        raise SandboxUnavailable(f"{where}: its network cannot be looked at: exit code {seen.exit_code}, {reason!r}")


async def _hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
