"""A look at the policy's endpoint before hours are spent on it: what a run begins with, and the doctor too."""

import asyncio
import logging
import time
from collections import defaultdict
from typing import TypeVar

from gym_core.errors import ModelUnavailable, TransportError
from gym_core.http.client import ServiceClient
from gym_core.types.checkup import CheckState, Finding
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

_ASKED = "one real completion"
_ADVICE = (
    ("HTTP 401", "the key is wrong or missing: ++policy_api_key, or policy_api_key in env.yaml"),
    ("HTTP 403", "the key may not use this model: ++policy_api_key, ++policy_model_name"),
    ("HTTP 404", "the address should end in /v1, and the model be one that is served: ++policy_base_url,"
     " ++policy_model_name"),
    ("HTTP 0", "nothing answers there: is the server up, and ++policy_base_url right, as seen from this machine?"),
    ("paused", "POST /v1/policy/resume ends the pause"),
)  # fmt: skip
_ADVICE_ELSE = "look at the endpoint's own log"

ReplyT = TypeVar("ReplyT", bound=Wire)


async def check_policy(policy: ServiceClient, *, needs_images: bool) -> EndpointReport:
    """One real completion before hours are spent. Raises ModelUnavailable when the endpoint cannot play.

    A pause of the policy is waited for, however often it is renewed: it is no failure, and takes none of the time that
    the endpoint has to answer in.
    """
    report = await look_at_policy(policy)
    for finding in endpoint_findings(report, needs_images=needs_images):
        if finding.state is CheckState.FAIL:
            raise ModelUnavailable(f"policy endpoint: {finding.found}; {finding.advice}")
    if report.message:
        log.warning("policy endpoint", extra={"reason": report.message})
    return report


def endpoint_findings(report: EndpointReport, *, needs_images: bool, url: str = "") -> list[Finding]:
    """What a look comes to. A run begins when none of it is a failure. `url` is where the endpoint is, for people."""
    ours = _Findings(url or report.model, report.seconds)
    if not report.answers:
        ours.add("endpoint", CheckState.FAIL, _ASKED, report.message, _advice_on(report.message))
        return ours.found
    served = f"{report.model!r} answered in {report.seconds:.1f} s"
    context = f"; its context is {report.context_tokens} tokens" if report.context_tokens else ""
    ours.add("endpoint", CheckState.OK, _ASKED, served + context)
    _add_images(ours, report, needs_images=needs_images)
    _add_template(ours, report)
    _add_tokens(ours, report)
    return ours.found


class _Findings:
    def __init__(self, on: str, seconds: float) -> None:
        self.found: list[Finding] = []
        self._on, self._seconds = on, seconds

    def add(self, check: str, state: CheckState, tried: str, found: str, advice: str = "") -> None:
        self.found.append(
            Finding(
                check=check, state=state, tried=tried, on=self._on, found=found, advice=advice, seconds=self._seconds
            )
        )


def _add_images(ours: _Findings, report: EndpointReport, *, needs_images: bool) -> None:
    tried = "two pictures in one conversation"
    if not report.accepts_images:
        state = CheckState.FAIL if needs_images else CheckState.WARN
        ours.add("images", state, tried, report.message, "serve a vision-language model")
    elif report.message and not report.leaks_list_content:
        ours.add("images", CheckState.WARN, tried, report.message, "rollouts that need it will be masked or cut short")
    else:
        ours.add("images", CheckState.OK, tried, "taken")


def _add_template(ours: _Findings, report: EndpointReport) -> None:
    tried = "content in parts, through the chat template"
    if not report.leaks_list_content:
        ours.add("template", CheckState.OK, tried, "not seen to be garbled")
        return
    state = CheckState.WARN if report.allows_leak else CheckState.FAIL
    ours.add("template", state, tried, "printed as program text", report.message)


def _add_tokens(ours: _Findings, report: EndpointReport) -> None:
    tried = "token ids and log-probabilities"
    if report.gives_token_ids and report.gives_logprobs:
        ours.add("tokens", CheckState.OK, tried, f"both are given; log-probabilities are {report.logprobs_mode}")
        return
    given = [name for name, there in (("ids", report.gives_token_ids), ("log-probabilities", report.gives_logprobs))
             if there]  # fmt: skip
    ours.add(
        "tokens", CheckState.WARN, tried, f"only {given[0]}" if given else "neither is given",
        "nothing to do for a score; for training, serve with vLLM and --model-type vllm_model",
    )  # fmt: skip


def _advice_on(message: str) -> str:
    """For an endpoint that gave no completion, by what it said instead."""
    return next((advice for mark, advice in _ADVICE if mark in message), _ADVICE_ELSE)


async def look_at_policy(policy: ServiceClient) -> EndpointReport:
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
