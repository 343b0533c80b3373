"""The resources server `benchmax`: an environment class written for that package, unchanged, as a service.

The gym plays the loop of model and tools; this asks the class for tools, runs them, and asks it for rewards. The class
is the operator's own code and runs in this process, in a thread of its own.
"""

import asyncio
import copy
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gym_core.capture.images import make_data_url, make_reference
from gym_core.config.roots import Roots
from gym_core.errors import ConfigError
from gym_core.servers.context import ServerContext
from gym_core.servers.image_shelf import ImageShelf
from gym_core.servers.resources import ResourcesSession, Submission
from gym_core.servers.tools import ToolError, ToolOutput, ToolResourcesServer, ToolResourcesServerConfig, ToolSession
from gym_core.types.responses import ResponsesReply
from gym_core.types.rollout import RolloutRecord
from gym_core.types.session import SeedSessionRequest
from gym_core.types.tool import ToolAccess, ToolFunction
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.benchmax.arguments import misfits, names_taken, schema_fault
from resources_servers.benchmax.attempt import Attempt, Hook, awaited
from resources_servers.benchmax.environment_loop import EnvironmentLoop
from resources_servers.benchmax.functions import AnyArguments, EnvironmentTool, read_functions
from resources_servers.benchmax.rewards import (
    RewardRange,
    RewardRule,
    parts_by,
    read_group_rewards,
    read_rewards,
    total_of,
)
from resources_servers.benchmax.rollouts import graded_siblings, make_rollout
from resources_servers.benchmax.rows import BenchmaxTask
from resources_servers.benchmax.source import EnvironmentSource, base_module, load_environment, overrides
from resources_servers.benchmax.termination import FINISHED, as_episode_error, reason_of, reason_word
from resources_servers.benchmax.tool_results import parts_of
from resources_servers.benchmax.transcript import chat_messages

if TYPE_CHECKING:
    from benchmax.envs import BaseEnv, BaseRollout

log = logging.getLogger(__name__)

MAX_LEAVE_S = 20.0
"""Below the time that whoever closes a session waits."""
BLOCKED_AFTER_S = 1.0
"""So much later than its own limit the environment's thread is taken for blocked."""


class BenchmaxConfig(ToolResourcesServerConfig):
    environment: EnvironmentSource
    reward: RewardRule = "sum"
    """What is published of the class's named rewards: their sum, one by name, or a sum by weights."""
    reward_range: RewardRange = "mask"
    """What becomes of a reward outside [0, 1]: it is a mistake and masks, or is clipped."""
    group_rewards: Literal["refuse", "in_groups"] = "refuse"
    """For a class with `compute_group_rewards`, which needs siblings: not to start, or to add to a trainer's rewards
    where `/v1/rollouts` plays groups, and to be graded by `compute_reward` alone elsewhere."""
    context_timeout_s: float = Field(default=60.0, gt=0)
    """To enter `rollout_context`, to ask for the tools, and to leave it (20 at most)."""
    reward_timeout_s: float = Field(default=600.0, gt=0)
    """Of `compute_reward`, which may ask judges."""


@dataclass
class BenchmaxSession(ToolSession[BenchmaxTask]):
    attempt: Attempt = field(kw_only=True)


class BenchmaxServer(ToolResourcesServer[BenchmaxTask, BenchmaxConfig]):
    config_type = BenchmaxConfig  # type: ignore[assignment]  # it has a field without a default
    task_type = BenchmaxTask

    def __init__(self, config: BenchmaxConfig, context: ServerContext) -> None:
        super().__init__(config, context)
        self._loop = EnvironmentLoop(config.environment.class_path)
        self._opened: BaseEnv | None = None

    @property
    def _environment(self) -> "BaseEnv":
        assert self._opened is not None  # before the first request
        return self._opened

    # -- life ---------------------------------------------------------------

    async def open(self) -> None:
        roots = Roots(tuple(map(Path, self.context.slice.roots)))
        self._opened = await asyncio.to_thread(load_environment, self.config.environment, roots)
        if overrides(self._opened, "compute_group_rewards") and self.config.group_rewards == "refuse":
            raise ConfigError(
                f"{self.context.name}: {self.config.environment.class_path!r} has compute_group_rewards, which only "
                "groups of /v1/rollouts have: `group_rewards: in_groups` grades by compute_reward alone elsewhere"
            )
        self._loop.start()
        try:
            functions = await self._list_functions()
        except Exception as error:
            raise ConfigError(f"{self.context.name}: list_tools: {type(error).__name__}: {error}"[:2000]) from error
        for function in functions:
            if fault := schema_fault(function.parameters):
                log.warning("arguments are not held to a schema", extra={"tool": function.name, "reason": fault})
        await super().open()

    async def close(self) -> None:
        await super().close()
        if self._opened is not None and self._loop.is_running:
            try:
                await self._loop.run(awaited(self._opened.aclose), limit_s=MAX_LEAVE_S)
            except Exception:
                log.exception("aclose raised")
        await self._loop.stop()

    # -- sessions -----------------------------------------------------------

    def make_session(self, request: SeedSessionRequest) -> BenchmaxSession:
        task = self.read_task(request.task_data)
        example = base_module().Example(task.example_id, copy.deepcopy(task.payload))
        return BenchmaxSession(
            request,
            task=task,
            tools={},
            shelf=ImageShelf(self.config.tool_images),
            attempt=Attempt(self._environment, request.resources_session_id, example),
        )

    async def begin_session(self, session: ResourcesSession) -> None:
        held = _held(session)
        try:
            await self._loop.run(held.attempt.enter(), limit_s=self.config.context_timeout_s)
            functions = await self._list_functions(held.attempt)
        except Exception as error:
            await self._leave(held.attempt)
            raise as_episode_error(error, "rollout_context") from error
        except BaseException:
            await self._leave(held.attempt)
            raise
        held.tools |= {function.name: self._tool(function) for function in functions}

    async def end_session(self, session: ResourcesSession) -> None:
        await super().end_session(session)
        await self._leave(_held(session).attempt)

    async def _leave(self, attempt: Attempt) -> None:
        limit_s = min(self.config.context_timeout_s, MAX_LEAVE_S)
        if not await self._loop.finish(attempt.leave(limit_s=limit_s), limit_s=limit_s + BLOCKED_AFTER_S):
            log.warning("environment blocks its thread", extra={"rollout": attempt.rollout_id})

    def tool_access(self, session: ResourcesSession) -> ToolAccess | None:
        access = super().tool_access(session)
        assert access is not None  # of a server with tools
        limits = {"max_turns": self._environment.max_turns, "max_tool_calls": self._environment.max_tool_calls}
        return access.model_copy(update=limits)

    # -- tools --------------------------------------------------------------

    async def _list_functions(self, attempt: Attempt | None = None) -> list[ToolFunction]:
        hook = self._environment.list_tools
        work = attempt.call(hook) if attempt else awaited(hook)
        return read_functions(await self._loop.run(work, limit_s=self.config.context_timeout_s))

    def _tool(self, function: ToolFunction) -> EnvironmentTool:
        run = functools.partial(self._run_tool, function)
        return EnvironmentTool(function.name, function.description, AnyArguments, run, function)

    async def _run_tool(
        self, function: ToolFunction, session: ToolSession[BenchmaxTask], asked: AnyArguments
    ) -> ToolOutput:
        attempt, arguments = _held(session).attempt, asked.model_extra or {}
        if taken := names_taken(arguments, function.parameters, self._environment.run_tool, positional=2):
            raise _do_not_fit(function, taken)
        try:
            result = await self._hook(
                attempt,
                lambda: self._environment.run_tool(attempt.rollout_id, function.name, **arguments),
                limit_s=self.config.tool_timeout_s,
            )
        except Exception as error:
            word = reason_word(error)
            if word is not None and word in self._environment.scorable_termination_reasons:
                attempt.ended_as = word
                return ToolOutput([str(error)[:1000]], ends=True)
            mistakes = [] if word else await asyncio.to_thread(misfits, arguments, function.parameters)
            if mistakes:
                raise _do_not_fit(function, mistakes) from error
            raise as_episode_error(error, f"run_tool {function.name!r}") from error
        try:
            return ToolOutput(await asyncio.to_thread(parts_of, result))
        except Exception as error:
            raise as_episode_error(error, f"run_tool {function.name!r}") from error

    async def _hook(self, attempt: Attempt, hook: Hook, *, limit_s: float) -> object:
        return await self._loop.run(attempt.call(hook), limit_s=limit_s)

    # -- rewards ------------------------------------------------------------

    def grades_unfinished(self, response: ResponsesReply) -> bool:
        """After a limit, where the class says that such a rollout is scored."""
        return reason_of(response) in self._environment.scorable_termination_reasons

    async def verify(self, submission: Submission[BenchmaxTask]) -> Verification:
        attempt = _held(submission.session).attempt
        reason = attempt.ended_as or reason_of(submission.response)
        rollout = await asyncio.to_thread(self._rollout, submission, reason)
        try:
            found = await self._hook(
                attempt, lambda: self._environment.compute_reward(rollout), limit_s=self.config.reward_timeout_s
            )
            rewards = read_rewards(found)
        except Exception as error:
            raise as_episode_error(error, "compute_reward") from error
        if not rewards and reason == FINISHED:
            raise ValueError(f"compute_reward gave {found!r}: a finished rollout needs a reward")
        parts = parts_by(self.config.reward, rewards) if rewards else {}
        return Verification(
            reward=total_of(parts, range_=self.config.reward_range),
            reward_components=parts,
            details={"rollout_id": attempt.rollout_id, "rewards": rewards, "termination_reason": reason},
        )

    async def describe_failure(self, submission: Submission[BenchmaxTask]) -> JsonObject:
        rollout_id = _held(submission.session).attempt.rollout_id
        return {"rollout_id": rollout_id, "rewards": {}, "termination_reason": reason_of(submission.response)}

    def _rollout(self, submission: Submission[BenchmaxTask], reason: str) -> "BaseRollout":
        session = _held(submission.session)
        shelf = session.shelf
        shown = {make_reference(shelf[index].sha256): shelf[index] for index in range(len(shelf))}

        def show(url: str) -> str:
            return make_data_url(shown[url].content) if url in shown else url

        attempt = session.attempt
        messages = chat_messages(submission.response.output, show)
        return make_rollout(attempt.rollout_id, reason, session.task.split, attempt.example.payload, messages)

    # -- groups -------------------------------------------------------------

    @property
    def rewards_groups(self) -> bool:
        return self.config.group_rewards == "in_groups" and overrides(self._environment, "compute_group_rewards")

    async def reward_group(self, records: Sequence[RolloutRecord]) -> list[dict[str, float]]:
        """Attempts that a time-out or a crash ended are no siblings, as the class expects it."""
        siblings = await asyncio.to_thread(graded_siblings, records, self._environment.scorable_termination_reasons)
        rollouts = [rollout for rollout in siblings if rollout is not None]
        if not rollouts:
            return [{} for _ in records]
        found = await self._loop.run(
            awaited(lambda: self._environment.compute_group_rewards(rollouts)), limit_s=self.config.reward_timeout_s
        )
        rewards = read_group_rewards(found, {rollout.rollout_id: rollout.rewards or {} for rollout in rollouts})
        return [rewards.get(rollout.rollout_id, {}) if rollout else {} for rollout in siblings]


def _do_not_fit(function: ToolFunction, mistakes: list[str]) -> ToolError:
    return ToolError(f"the arguments of {function.name} do not fit: {'; '.join(mistakes)}")


def _held(session: ResourcesSession) -> BenchmaxSession:
    assert isinstance(session, BenchmaxSession)
    return session
