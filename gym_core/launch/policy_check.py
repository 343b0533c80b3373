"""A look at the policy's endpoint before hours are spent on it."""

import asyncio
import logging
import time
from collections import defaultdict
from typing import TypeVar

from gym_core.errors import ModelUnavailable, TransportError
from gym_core.http.client import ServiceClient
from gym_core.types.model_call import EndpointReport
from gym_core.types.policy import PolicyState
from gym_core.types.wire import Wire

log = logging.getLogger(__name__)

CHECK_PAUSES_S = (1.0, 4.0)
"""An endpoint that is busy or starting gets a second and a third look."""
CHECK_TIMEOUT_S = 150.0
"""Of all looks together: a model that is being loaded may need its time."""
MIN_LOOK_S = 10.0
STATE_TIMEOUT_S = 30.0
PAUSED_POLL_S = 1.0
"""A training step takes longer than this by far."""

ReplyT = TypeVar("ReplyT", bound=Wire)


async def check_policy(policy: ServiceClient, *, needs_images: bool) -> EndpointReport:
    """One real completion before hours are spent. Raises ModelUnavailable when the endpoint cannot play.

    A pause of the policy is waited for, however often it is renewed: it is no failure, and takes none of the time that
    the endpoint has to answer in.
    """
    report = await _answered_look(policy)
    leaks = report.leaks_list_content and not report.allows_leak
    if not report.answers or leaks or (needs_images and not report.accepts_images):
        raise ModelUnavailable(f"policy endpoint: {report.message}")
    if report.message:
        log.warning("policy endpoint", extra={"reason": report.message})
    return report


async def _answered_look(policy: ServiceClient) -> EndpointReport:
    """The last of some looks, each after a longer wait, or the first one that got an answer."""
    await _pause_over(policy)
    deadline, waits = time.monotonic() + CHECK_TIMEOUT_S, iter(CHECK_PAUSES_S)
    while True:
        report = await _asked(policy, "POST", "/v1/check", EndpointReport, timeout_s=deadline - time.monotonic())
        if report.answers:
            return report
        if await _pause_over(policy):
            deadline, waits = time.monotonic() + CHECK_TIMEOUT_S, iter(CHECK_PAUSES_S)
            continue
        wait_s = next(waits, None)
        if wait_s is None or time.monotonic() + wait_s > deadline - MIN_LOOK_S:
            return report
        await asyncio.sleep(wait_s)


async def _pause_over(policy: ServiceClient) -> bool:
    """Returns when the policy is not paused, and whether it was."""
    was_paused = False
    while (await _asked(policy, "GET", "/v1/policy", PolicyState, timeout_s=STATE_TIMEOUT_S)).paused:
        if not was_paused:
            log.info("waiting for the end of a pause of the policy", extra={"policy": policy.url})
        was_paused = True
        await asyncio.sleep(PAUSED_POLL_S)
    return was_paused


async def _asked(policy: ServiceClient, method: str, route: str, reply: type[ReplyT], *, timeout_s: float) -> ReplyT:
    try:
        return await policy.call(method, route, None, reply, timeout_s=timeout_s)
    except TransportError as error:
        raise ModelUnavailable(f"policy endpoint: it could not be looked at: {error}") from error


class RecentLooks:
    """Looks at policies that are as good as new for a while: for rows that come one by one."""

    MAX_AGE_S = 600.0

    def __init__(self) -> None:
        self._looks: dict[str, tuple[float, EndpointReport]] = {}
        self._looking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By policy: one that is paused does not hold up the others."""

    async def report(self, policy: ServiceClient) -> EndpointReport:
        """Raises ModelUnavailable when the endpoint does not answer; that is not remembered."""
        async with self._looking[policy.url]:
            seen = self._looks.get(policy.url)
            if seen is None or time.monotonic() - seen[0] > self.MAX_AGE_S:
                seen = self._looks[policy.url] = (time.monotonic(), await check_policy(policy, needs_images=False))
            return seen[1]
