"""The lender's side: who may use which of our sandboxes, and until when.

A lease is an id, its sandbox's, which the borrower chose, and a token that is good for it alone. It is renewed by every
use; one that is not used ends, and its sandbox with it, so a borrower that died cannot keep one.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gym_core.errors import FailureKind, SessionError
from gym_core.http.auth import new_token, same_token
from gym_core.sandbox.contract import Sandbox

log = logging.getLogger(__name__)

_REAP_INTERVAL_S = 5.0
_ENDED_KEPT = 10_000
"""Leases of which we still know that they ended, for borrowers that give one back again."""


@dataclass(frozen=True)
class Grant:
    """What the borrower gets to know."""

    lease_id: str
    token: str
    ttl_s: float
    expires_at: float
    """Unix time, seconds, if it is not used; our own bookkeeping is by a monotonic clock."""


@dataclass
class _Lease:
    sandbox: Sandbox
    token: str
    ttl_s: float
    deadline: float
    on_end: Callable[[], None]
    uses: int = 0


def _nothing() -> None:
    """For a lease whose end concerns nobody."""


class LeaseTable:
    """In memory: a lender that is gone has no sandboxes either. `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._leases: dict[str, _Lease] = {}
        self._reaper: asyncio.Task[None] | None = None
        self._unclosed: dict[str, _Lease] = {}
        """Ended leases whose sandbox could not be destroyed: tried again with each reaping."""
        self._ended: dict[str, str] = {}
        """Their tokens, the oldest first."""

    def __len__(self) -> int:
        return len(self._leases)

    def start(self) -> None:
        """End unused leases from now on. Needs a running event loop."""
        if self._reaper is None:
            self._reaper = asyncio.get_running_loop().create_task(self._reap_forever())

    async def stop(self) -> None:
        """Release every lease."""
        if self._reaper:
            self._reaper.cancel()
            await asyncio.gather(self._reaper, return_exceptions=True)
            self._reaper = None
        await asyncio.gather(*(self.release(lease_id) for lease_id in list(self._leases)))
        await self._close_again()

    def lend(self, sandbox: Sandbox, *, ttl_s: float, on_end: Callable[[], None] = _nothing) -> Grant:
        """From now on the sandbox is the lease's to close; `on_end` is called once it is. Raises SessionError."""
        lease_id, token = sandbox.id, new_token()
        if lease_id in self._leases or lease_id in self._unclosed:
            raise SessionError(f"lease {lease_id!r} is out already", kind=FailureKind.SESSION_CONFLICT)
        self._leases[lease_id] = _Lease(sandbox, token, ttl_s, self._clock() + ttl_s, on_end)
        return Grant(lease_id, token, ttl_s, time.time() + ttl_s)

    def redeem(self, lease_id: str, token: str) -> Sandbox:
        """The lent sandbox; renews the lease. Raises SessionError, the same for a wrong token as for an unknown id."""
        lease = self._find(lease_id, token)
        lease.deadline = self._clock() + lease.ttl_s
        return lease.sandbox

    @contextmanager
    def using(self, lease_id: str, token: str) -> Iterator[Sandbox]:
        """As `redeem`; the lease cannot run out meanwhile, and is renewed again at the end."""
        sandbox = self.redeem(lease_id, token)
        lease = self._leases[lease_id]
        lease.uses += 1
        try:
            yield sandbox
        finally:
            lease.uses -= 1
            lease.deadline = self._clock() + lease.ttl_s

    async def renew(self, lease_id: str, token: str) -> float:
        """Seconds until the lease ends, if it is not used. Rarely asked for: uses renew the lease by themselves, and so
        does the provider its sandbox; only a long command needs it. Raises SandboxLost too."""
        await self.redeem(lease_id, token).renew()
        return self.seconds_left(lease_id, token)

    def seconds_left(self, lease_id: str, token: str) -> float:
        """Does not renew. Raises SessionError."""
        return self._find(lease_id, token).deadline - self._clock()

    async def is_alive(self, lease_id: str, token: str) -> bool:
        """Whether the sandbox lives; does not renew. Raises SessionError."""
        return await self._find(lease_id, token).sandbox.is_alive()

    async def give_back(self, lease_id: str, token: str) -> None:
        """As `release`, by its borrower. Again is fine, also after it ran out. Raises SessionError."""
        ended = self._ended.get(lease_id)
        if ended is not None and same_token(token, ended):
            return
        lease = self._leases.get(lease_id)
        if lease is None or not same_token(token, lease.token):
            raise _unknown(lease_id)
        await self.release(lease_id)

    async def release(self, lease_id: str) -> None:
        """End the lease and destroy its sandbox. Twice is fine; so is a provider that fails, for now."""
        lease = self._leases.pop(lease_id, None)
        if lease:
            self._unclosed[lease_id] = lease
            self._ended.pop(lease_id, None)
            self._ended[lease_id] = lease.token
            if len(self._ended) > _ENDED_KEPT:
                del self._ended[next(iter(self._ended))]
            await self._close(lease_id, lease)

    async def reap(self) -> list[str]:
        """End the leases that were not used in time; their ids."""
        now = self._clock()
        late = [lease_id for lease_id, lease in self._leases.items() if not lease.uses and lease.deadline <= now]
        for lease_id in late:
            log.warning("lease not renewed", extra={"lease": lease_id, "sandbox": self._leases[lease_id].sandbox.id})
        await asyncio.gather(*(self.release(lease_id) for lease_id in late), self._close_again())
        return late

    async def _close(self, lease_id: str, lease: _Lease) -> None:
        try:
            await lease.sandbox.close()
        except Exception as error:  # noqa: BLE001 - a service may fail in any way; it is asked again
            reason = f"{type(error).__name__}: {error}"[:500]
            log.warning("sandbox not closed", extra={"sandbox": lease.sandbox.id, "reason": reason})
        else:
            if self._unclosed.pop(lease_id, None):
                lease.on_end()

    async def _close_again(self) -> None:
        await asyncio.gather(*(self._close(lease_id, lease) for lease_id, lease in list(self._unclosed.items())))

    async def _reap_forever(self) -> None:
        while True:
            await asyncio.sleep(_REAP_INTERVAL_S)
            try:
                await self.reap()
            except Exception:
                log.exception("reaping leases failed")

    def _find(self, lease_id: str, token: str) -> _Lease:
        lease = self._leases.get(lease_id)
        if lease is None or not same_token(token, lease.token):
            raise _unknown(lease_id)
        if not lease.uses and lease.deadline <= self._clock():
            raise SessionError(f"lease {lease_id!r} ran out", kind=FailureKind.SESSION_EXPIRED)
        return lease


def _unknown(lease_id: str) -> SessionError:
    return SessionError(f"no lease {lease_id!r} for this token: unknown, released or run out")
