"""The parts of a configured gym, each tried by itself and within a time limit: what `gym doctor` shows.

Nothing here is a check of its own: the endpoint's look is the one that a run begins with, the judge is asked through
its resources server, and the sandbox is inspected as `gym sandbox check` does it.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gym_core.config.blocks import CheckedConfig
from gym_core.errors import ConfigError, EpisodeError
from gym_core.http.client import ServiceClient
from gym_core.judging.check import judge_finding
from gym_core.launch.identity import needed_servers, with_toolkit
from gym_core.launch.parts import serving_parts
from gym_core.launch.policy_check import endpoint_findings, look_at_policy
from gym_core.sandbox.addresses import own_addresses
from gym_core.sandbox.contract import SandboxSpec
from gym_core.sandbox.inspection import inspect
from gym_core.sandbox.providers import SandboxConfig, open_provider
from gym_core.servers.agent import AgentServerConfig
from gym_core.servers.model.config import ModelServerConfig
from gym_core.servers.resources import ResourcesServerConfig
from gym_core.types.checkup import AbilityReport, CheckState, Finding, JudgeReport
from gym_core.types.wire import JsonObject

ENDPOINT_LIMIT_S = 160.0
"""A little more than the look takes at most: a model may be loading."""
ABILITIES_LIMIT_S = 120.0
JUDGE_LIMIT_S = 120.0
SANDBOX_LIMIT_S = 300.0
"""The first sandbox of an image may wait for its pull."""
_REMOTE = frozenset({"opensandbox"})
"""Providers whose sandboxes are on other machines."""

Checking = Callable[[], Awaitable[list[Finding]]]


@dataclass(frozen=True)
class SandboxPart:
    """A sandbox block, and the sandbox that is to be had of it."""

    name: str
    block: JsonObject
    spec: SandboxSpec = SandboxSpec()


EMBEDDED = SandboxPart("sandbox", {"local": {}})
"""What there is to try without a configuration."""


async def within(limit_s: float, check: str, tried: str, on: str, checking: Checking) -> list[Finding]:
    """What the check found, or one failure that says why it found nothing. Each finding has the time it took."""
    started = time.monotonic()

    def failure(why: str, advice: str) -> list[Finding]:
        return [Finding(check=check, state=CheckState.FAIL, tried=tried, on=on, found=why, advice=advice)]

    try:
        async with asyncio.timeout(limit_s):
            found = await checking()
    except TimeoutError:
        found = failure(f"not done within {limit_s:g} s", "it hangs, or is slower than a run could bear")
    except (ConfigError, EpisodeError, OSError, ValueError) as error:
        found = failure(str(error)[:2000] or type(error).__name__, "do what it says, and try again")
    seconds = time.monotonic() - started
    return [finding.model_copy(update={"seconds": round(seconds, 3)}) for finding in found]


async def check_servers(
    checked: CheckedConfig, *, with_policy: bool, needs_images: bool = True
) -> AsyncIterator[Finding]:
    """Policies' endpoints and judges, through their own servers inside this process."""
    policies = _policies(checked) if with_policy else []
    graders = [name for name in needed_servers(checked) if isinstance(checked.blocks[name], ResourcesServerConfig)]
    agents = {name for name, block in checked.blocks.items() if isinstance(block, AgentServerConfig)}
    names = [name for name in needed_servers(checked) if name not in agents]
    with tempfile.TemporaryDirectory(prefix="gym-doctor-") as folder:
        async with serving_parts(checked, names, state_dir=Path(folder)) as client:
            for name in policies:
                async for finding in _policy(client(name), checked, name, needs_images=needs_images):
                    yield finding
            for name in graders:
                async for finding in _grader(client(name), name):
                    yield finding


def _policies(checked: CheckedConfig) -> list[str]:
    """Whom agents play with; without an agent every model server."""
    agents = [block for block in checked.blocks.values() if isinstance(block, AgentServerConfig)]
    if agents:
        return sorted({agent.model_server.name for agent in agents})
    return sorted(name for name, block in checked.blocks.items() if isinstance(block, ModelServerConfig))


async def _policy(
    policy: ServiceClient, checked: CheckedConfig, name: str, *, needs_images: bool
) -> AsyncIterator[Finding]:
    url = _endpoint_url(checked, name)

    async def look() -> list[Finding]:
        return endpoint_findings(await look_at_policy(policy), needs_images=needs_images, url=url)

    async def abilities() -> list[Finding]:
        report = await policy.call("POST", "/v1/check_abilities", None, AbilityReport, timeout_s=ABILITIES_LIMIT_S)
        return ability_findings(report, on=url)

    answers = False
    for finding in await within(ENDPOINT_LIMIT_S, "endpoint", "one real completion", url, look):
        answers = answers or finding.state is CheckState.OK
        yield finding
    if answers:
        for finding in await within(ABILITIES_LIMIT_S, "abilities", "colours and a tool", url, abilities):
            yield finding


def _endpoint_url(checked: CheckedConfig, name: str) -> str:
    """Where a model server's endpoint is, for people."""
    block = checked.blocks[name]
    found = getattr(block, "base_url", None) or getattr(block, "openai_base_url", None) or name
    return found if isinstance(found, str) else ", ".join(map(str, found))


def ability_findings(report: AbilityReport, *, on: str) -> list[Finding]:
    def finding(check: str, state: CheckState, tried: str, found: str, advice: str = "") -> Finding:
        return Finding(check=check, state=state, tried=tried, on=on, found=found, advice=advice)

    colours = "a red picture and a blue one told apart"
    said = ", ".join(f"{answer.shown}: {answer.said!r}" for answer in report.colours)
    if report.message:
        sight = finding("sight", CheckState.WARN, colours, report.message, "look at the endpoint's own log")
    elif report.tells_colours:
        sight = finding("sight", CheckState.OK, colours, said)
    else:
        advice = "the pictures may not reach the model (its chat template, its processor), or it is too weak to play"
        sight = finding("sight", CheckState.WARN, colours, said, advice)
    tool = "one tool offered, and the model told to call it"
    if report.refusal is not None:
        advice = "a harness needs tools: with vLLM, --enable-auto-tool-choice and the --tool-call-parser of the model"
        return [sight, finding("tools", CheckState.FAIL, tool, report.refusal, advice)]
    if report.called_tool:
        return [sight, finding("tools", CheckState.OK, tool, "called")]
    advice = "if it called it in its text, the endpoint's tool-call parser is not the model's (vLLM --tool-call-parser)"
    return [sight, finding("tools", CheckState.WARN, tool, "answered without calling it", advice)]


async def _grader(resources: ServiceClient, name: str) -> AsyncIterator[Finding]:
    async def try_judge() -> list[Finding]:
        report = await resources.call("POST", "/check_grader", None, JudgeReport, timeout_s=JUDGE_LIMIT_S)
        return [judge_finding(report, server=name)]

    for finding in await within(JUDGE_LIMIT_S, "judge", "a right answer and a wrong one graded", name, try_judge):
        yield finding


def sandbox_parts(checked: CheckedConfig) -> list[SandboxPart]:
    """Each sandbox block that a server lends from, with what the first such server asks for."""
    found: dict[str, SandboxPart] = {}
    for name in needed_servers(checked):
        block = checked.blocks[name]
        if isinstance(block, ResourcesServerConfig) and block.sandbox_provider:
            settings = block.sandbox_config
            spec = SandboxSpec(image=settings.image, resources=settings.resources, mounts=list(settings.mounts))
            provider = block.sandbox_provider
            found.setdefault(provider, SandboxPart(provider, checked.run.sandboxes[provider], spec))
    return list(found.values())


async def check_sandboxes(parts: Sequence[SandboxPart]) -> AsyncIterator[Finding]:
    """One sandbox of each, made and looked at from inside."""
    for part in parts:

        async def look(part: SandboxPart = part) -> list[Finding]:
            return [await _inspected(part)]

        tried = "one sandbox, looked at from inside"
        for finding in await within(SANDBOX_LIMIT_S, "sandbox", tried, part.name, look):
            yield finding


async def _inspected(part: SandboxPart) -> Finding:
    block = with_toolkit(part.block)
    kind = SandboxConfig.parse(block, part.name).provider
    host = next(iter(own_addresses()), "127.0.0.1") if kind in _REMOTE else "127.0.0.1"
    provider = open_provider(block, part.name)
    try:
        found = await inspect(provider, part.spec, model_host=host)
    finally:
        await provider.aclose()
    enforced = ", ".join(f"{name} {value}" for name, value in found.enforced.model_dump().items() if value)
    weak = found.enforced.network != "exact_port"
    return Finding(
        check="sandbox",
        state=CheckState.WARN if weak else CheckState.OK,
        tried="one sandbox, looked at from inside",
        on=part.name,
        found=enforced,
        advice="more than one port can be reached from inside: docs/sandboxes.md says what that means" if weak else "",
    )
