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
    if not report.answers or (needs_images and not report.accepts_images):
        raise ModelUnavailable(f"policy endpoint: {report.message}")
    if report.message:
        log.warning("policy endpoint", extra={"reason": report.message})
    return report
