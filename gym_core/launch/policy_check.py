"""A look at the policy's endpoint before hours are spent on it."""

import asyncio
import logging
import time

from gym_core.errors import ModelUnavailable, TransportError
from gym_core.http.client import ServiceClient
from gym_core.types.model_call import EndpointReport

log = logging.getLogger(__name__)

CHECK_PAUSES_S = (1.0, 4.0)
"""An endpoint that is busy or starting gets a second and a third look."""
CHECK_TIMEOUT_S = 150.0
"""Of all looks together: a model that is being loaded may need its time."""
MIN_LOOK_S = 10.0


async def check_policy(policy: ServiceClient, *, needs_images: bool) -> EndpointReport:
    """One real completion before hours are spent. Raises ModelUnavailable when the endpoint cannot play."""
    deadline = time.monotonic() + CHECK_TIMEOUT_S
    for pause_s in (*CHECK_PAUSES_S, None):
        try:
            report = await policy.call("POST", "/v1/check", None, EndpointReport, timeout_s=deadline - time.monotonic())
        except TransportError as error:
            raise ModelUnavailable(f"policy endpoint: it could not be looked at: {error}") from error
        if report.answers or pause_s is None or time.monotonic() + pause_s > deadline - MIN_LOOK_S:
            break
        await asyncio.sleep(pause_s)
    leaks = report.leaks_list_content and not report.allows_leak
    if not report.answers or leaks or (needs_images and not report.accepts_images):
        raise ModelUnavailable(f"policy endpoint: {report.message}")
    if report.message:
        log.warning("policy endpoint", extra={"reason": report.message})
    return report


class RecentLooks:
    """Looks at policies that are as good as new for a while: for rows that come one by one."""

    MAX_AGE_S = 600.0

    def __init__(self) -> None:
        self._looks: dict[str, tuple[float, EndpointReport]] = {}
        self._looking = asyncio.Lock()

    async def report(self, policy: ServiceClient) -> EndpointReport:
        """Raises ModelUnavailable when the endpoint does not answer; that is not remembered."""
        async with self._looking:
            seen = self._looks.get(policy.url)
            if seen is None or time.monotonic() - seen[0] > self.MAX_AGE_S:
                seen = self._looks[policy.url] = (time.monotonic(), await check_policy(policy, needs_images=False))
            return seen[1]
