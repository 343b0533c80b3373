"""The base of an environment: it seeds a session, lends a sandbox when its block says so, and grades what came back.

Authors subclass `ResourcesServer`, name their `task_type` and write `verify`. They raise plain Python errors.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

import msgspec
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from gym_core.config.schema import ServerRef
from gym_core.errors import (
    ConfigError,
    EpisodeError,
    FailureKind,
    InvalidTask,
    Outcome,
    SandboxError,
    boundary,
    kind_of_word,
    outcome_of,
)
from gym_core.http.app import add_route
from gym_core.http.problem import BAD_REQUEST, problem_response
from gym_core.sandbox.contract import (
    DEFAULT_WORKDIR,
    NetworkPolicy,
    NoNetwork,
    Sandbox,
    SandboxResources,
    SandboxSpec,
)
from gym_core.sandbox.egress import network_policy
from gym_core.sandbox.lease import LeaseTable
from gym_core.sandbox.lease_routes import add_lease_routes
from gym_core.sandbox.lender import Lender, LendingRules, Lent, WeakestNetwork
from gym_core.sandbox.mounts import SharedFolders
from gym_core.sandbox.providers import open_provider
from gym_core.servers.aggregate import AggregateReply, AggregateRequest, aggregate_rows
from gym_core.servers.base import Server, ServerConfig
from gym_core.servers.context import ServerContext
from gym_core.servers.sessions import SessionTable
from gym_core.types.checkup import JudgeReport
from gym_core.types.flat_row import (
    VerifyRequest,
    check_columns,
    record_from_flat,
    verification_to_flat,
    verify_request_from_flat,
)
from gym_core.types.group_reward import GroupRewardAbility, GroupRewardReply, GroupRewardRequest
from gym_core.types.responses import ResponsesReply
from gym_core.types.rollout import RolloutRecord
from gym_core.types.session import (
    CloseSessionReply,
    CloseSessionRequest,
    SandboxLease,
    SeedSessionReply,
    SeedSessionRequest,
)
from gym_core.types.task import TaskData
from gym_core.types.tool import ToolAccess
from gym_core.types.verification import Failure, ShapingTerms, Verification
from gym_core.types.wire import JsonObject, Wire

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

TaskT = TypeVar("TaskT", bound=TaskData)


class SandboxSettings(Wire):
    """`sandbox_config` of a resources server's block."""

    image: str | None = None
    ttl_s: float = Field(default=7200.0, gt=0)
    """A lent sandbox that nobody used for this long ends; a borrower renews its lease every third of it."""
    resources: SandboxResources = SandboxResources()
    mounts: SharedFolders = []
    """Folders of the provider's machine that every sandbox sees, read-only."""
    max_sandboxes: int | None = Field(default=None, gt=0)
    """So many are lent at once; one more waits for two minutes, then its rollout is masked. None is no limit."""
    sweep_every_s: float = Field(default=300.0, gt=0)
    """How often sandboxes whose owner died are looked for and removed; the first time at the start."""
    weakest_network: WeakestNetwork = "exact_port"
    """What `model_only` must mean for a sandbox to be lent. `host` accepts a provider that lets every port of the model
    server's address through, as OpenSandbox does without a relay; each row says which it was."""


class ResourcesServerConfig(ServerConfig):
    sandbox_provider: str | None = None
    """Name of a top-level block `{<provider>: {...}}`; None lends no sandbox."""
    sandbox_config: SandboxSettings = SandboxSettings()
    sandbox_workdir: str = DEFAULT_WORKDIR
    sandbox_network_access: Literal["none", "model_only"] = "none"
    sandbox_model_server: ServerRef | None = None
    """The one server that `model_only` lets a sandbox reach."""
    session_idle_s: float = 7200.0
    """A session that nobody used for this long is closed: its owner is gone."""


ResourcesConfigT = TypeVar("ResourcesConfigT", bound=ResourcesServerConfig)


@dataclass
class ResourcesSession:
    """What this server holds for one episode."""

    request: SeedSessionRequest
    sandbox: Sandbox | None = None
    lease: SandboxLease | None = None


@dataclass(frozen=True)
class Submission(Generic[TaskT]):
    """What the agent handed in, with the key to grade it against."""

    task: TaskT
    response: ResponsesReply
    session: ResourcesSession

    @property
    def text(self) -> str:
        """The final assistant message; "" when there is none."""
        return self.response.final_text

    @property
    def assistant_text(self) -> str:
        return self.response.assistant_text()


class ResourcesServer(Server[ResourcesConfigT], Generic[TaskT, ResourcesConfigT]):
    """Subclasses set `task_type` and write `verify`; `config_type` when their block has more fields."""

    config_type = ResourcesServerConfig
    task_type: ClassVar[type[TaskData]] = TaskData
    own_paths: ClassVar[tuple[str, ...]] = ("/v1/sandboxes/",)
    measured_columns: ClassVar[tuple[str, ...]] = ()
    """Columns of `details` that hold a number (or a bool) whose mean is worth telling: a run's metrics have it as
    `mean/NAME`, by subtype too. A row where one is absent or null counts for nothing in that mean."""

    def __init__(self, config: ResourcesConfigT, context: ServerContext) -> None:
        super().__init__(config, context)
        self.sessions: SessionTable[ResourcesSession] = SessionTable(self._end_session, idle_s=config.session_idle_s)
        self.leases = LeaseTable()
        self._lender: Lender | None = None

    async def verify(self, submission: Submission[TaskT]) -> Verification:
        """Grade an answer. A plain error is a `verifier_error` and masks; a JudgeError masks as such."""
        raise NotImplementedError(f"{type(self).__name__} grades nothing: write `verify`")

    def grades_unfinished(self, response: ResponsesReply) -> bool:
        """Whether `verify` is to grade what the model's own failure (a limit, no answer) left, which is `error` of the
        response. The failure stays named beside the reward that it gives. By default such a rollout scores 0."""
        return False

    async def describe_failure(self, submission: Submission[TaskT]) -> JsonObject:
        """Columns for an episode that is scored 0 without grading; {} by default. May not call a judge."""
        return {}

    @property
    def rewards_groups(self) -> bool:
        """Whether `reward_group` has something to say; `/v1/rollouts` asks it for complete groups then."""
        return False

    async def reward_group(self, records: Sequence[RolloutRecord]) -> Sequence[ShapingTerms]:
        """Shaping terms for each of the measured rollouts of one prompt, in their order: rewards that depend on the
        siblings. A plain error leaves the group without, and so unmeasured."""
        return [{} for _ in records]

    async def check_grader(self) -> JudgeReport:
        """The judge tried on answers that leave no doubt; by default there is none to try."""
        return JudgeReport()

    # -- life ---------------------------------------------------------------

    async def open(self) -> None:
        if self.config.sandbox_provider:
            block = self.context.slice.sandboxes.get(self.config.sandbox_provider)
            if block is None:
                raise ConfigError(f"{self.context.name}: no sandbox block named {self.config.sandbox_provider!r}")
            settings = self.config.sandbox_config
            rules = LendingRules(
                ttl_s=settings.ttl_s,
                sweep_every_s=settings.sweep_every_s,
                max_sandboxes=settings.max_sandboxes,
                weakest_network=settings.weakest_network,
            )
            self._lender = Lender(open_provider(block), rules, self.leases)
            trial = self._spec({}).model_copy(update={"network": NoNetwork()}) if settings.mounts else None
            await self._lender.open(self._network(), trial=trial)
        self.sessions.start()
        self.leases.start()

    async def close(self) -> None:
        await self.sessions.stop()
        await self.leases.stop()
        if self._lender:
            await self._lender.close()

    def add_routes(self, app: "FastAPI") -> None:
        add_route(app, "POST", "/seed_session", self.seed, body=SeedSessionRequest, reply=SeedSessionReply)
        add_route(app, "POST", "/close_session", self.close_session, body=CloseSessionRequest, reply=CloseSessionReply)
        add_route(app, "POST", "/check_grader", self.check_grader, reply=JudgeReport)
        app.add_api_route("/verify", self._verify_route, methods=["POST"], response_model=None)
        add_route(app, "GET", "/group_rewards", self._group_ability, reply=GroupRewardAbility)
        app.add_api_route("/group_rewards", self._group_rewards_route, methods=["POST"], response_model=None)
        add_route(app, "POST", "/aggregate_metrics", aggregate_rows, body=AggregateRequest, reply=AggregateReply)
        add_lease_routes(app, self.leases)

    # -- seed ---------------------------------------------------------------

    async def seed(self, request: SeedSessionRequest) -> SeedSessionReply:
        session = await self.sessions.open(
            request.resources_session_id, request.episode_id, lambda: self._begin_session(request)
        )
        return SeedSessionReply(
            resources_session_id=request.resources_session_id,
            resources_tools=self.tool_access(session),
            sandbox_access=session.lease,
        )

    def make_session(self, request: SeedSessionRequest) -> ResourcesSession:
        """What is held for an episode, before a sandbox is lent to it. Raises InvalidTask."""
        self.read_task(request.task_data)
        return ResourcesSession(request)

    def tool_access(self, session: ResourcesSession) -> ToolAccess | None:
        """Tools of the session that run in this server; None by default (see `gym_core.servers.tools`)."""
        return None

    async def begin_session(self, session: ResourcesSession) -> None:
        """Acquire what a subclass holds for the session; its sandbox lives. What was acquired when this raises is the
        subclass's to release: `end_session` is not called then."""

    async def end_session(self, session: ResourcesSession) -> None:
        """Release what a subclass holds for the session; its sandbox still lives."""

    async def _begin_session(self, request: SeedSessionRequest) -> ResourcesSession:
        session = self.make_session(request)
        if self._lender:
            with boundary(SandboxError, f"create sandbox for {request.episode_id}"):
                spec = self._spec({"episode": str(request.episode_id)})
                lent = await self._lender.lend(request.resources_session_id, spec)
            session.sandbox, session.lease = lent.sandbox, self._lease_of(lent)
        try:
            await self.begin_session(session)
        except BaseException:
            await self._release_lease(session)
            raise
        return session

    async def close_session(self, request: CloseSessionRequest) -> CloseSessionReply:
        await self.sessions.close(request.resources_session_id)
        return CloseSessionReply(resources_session_id=request.resources_session_id)

    def _lease_of(self, lent: Lent) -> SandboxLease:
        sandbox, grant = lent.sandbox, lent.grant
        return SandboxLease(
            lease_id=grant.lease_id,
            url=self.context.slice.url,
            token=grant.token,
            expires_at=grant.expires_at,
            workdir=sandbox.workdir,
            model_url=sandbox.model_url,
            enforced=lent.enforced,
        )

    def _network(self) -> NetworkPolicy:
        ref = self.config.sandbox_model_server
        model_url = self.context.peer_address(ref).url if ref else None
        return network_policy(self.config.sandbox_network_access, model_url)

    def _spec(self, metadata: dict[str, str]) -> SandboxSpec:
        settings = self.config.sandbox_config
        return SandboxSpec(
            image=settings.image,
            ttl_s=settings.ttl_s,
            resources=settings.resources,
            workdir=self.config.sandbox_workdir,
            network=self._network(),
            mounts=list(settings.mounts),
            metadata={**metadata, "server": self.context.name},
        )

    async def _end_session(self, session: ResourcesSession) -> None:
        try:
            await self.end_session(session)
        finally:
            await self._release_lease(session)

    async def _release_lease(self, session: ResourcesSession) -> None:
        if session.lease:
            await self.leases.release(session.lease.lease_id)

    # -- verify -------------------------------------------------------------

    def read_task(self, task_data: JsonObject) -> TaskT:
        """The environment's own view of a row. Raises InvalidTask naming each wrong field."""
        try:
            return self.task_type.model_validate(task_data)  # type: ignore[return-value]  # task_type is TaskT's class
        except ValidationError as error:
            where = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
            raise InvalidTask(f"task data does not fit {self.task_type.__name__}: {where}") from error

    async def _verify_route(self, request: Request) -> Response:
        flat = msgspec.json.decode(await request.body(), type=dict[str, object])
        verification = self._with_measures(await self.grade(verify_request_from_flat(flat)))
        # NeMo's shape: the request's own columns with the grade's beside them.
        return Response(
            msgspec.json.encode({**flat, **verification_to_flat(verification)}), media_type="application/json"
        )

    def _with_measures(self, verification: Verification) -> Verification:
        found = {name: verification.details.get(name) for name in self.measured_columns}
        numbers = {name: float(value) for name, value in found.items() if isinstance(value, (int, float))}
        measures = {name: number for name, number in numbers.items() if math.isfinite(number)}
        return verification.model_copy(update={"measures": measures}) if measures else verification

    async def _group_ability(self) -> GroupRewardAbility:
        return GroupRewardAbility(rewards_groups=self.rewards_groups)

    async def _group_rewards_route(self, request: Request) -> Response:
        try:
            records = [record_from_flat(row) for row in GroupRewardRequest.from_json(await request.body()).rows]
        except ValueError as error:
            return problem_response(422, BAD_REQUEST, f"POST /group_rewards: {str(error)[:2000]}")
        with boundary(EpisodeError, "rewards of a group"):
            terms = await self.reward_group(records)
            if len(terms) != len(records):
                raise ValueError(f"{len(terms)} rewards for {len(records)} rollouts")
            reply = GroupRewardReply.model_validate({"terms": list(terms)})
        return Response(reply.model_dump_json(), media_type="application/json")

    async def grade(self, request: VerifyRequest) -> Verification:
        """A verification, whatever happens: a failing grader masks its sample and never breaks the episode."""
        session = self.sessions.find(request.resources_session_id)
        submission = Submission(self.read_task(request.task.task_data), request.response, session)
        failure = _failure_of(request.response)
        if failure is not None:
            scored = outcome_of(failure.kind) is Outcome.SCORE_ZERO
            if not scored or not self.grades_unfinished(request.response):
                return Verification.failed(failure, await self.describe_failure(submission) if scored else None)
        try:
            verification = await self.verify(submission)
            check_columns(request.task.task_data, verification.details)
        except EpisodeError as error_:
            log.warning("grading failed", extra={"kind": error_.kind, "reason": str(error_)[:200]})
            details = getattr(error_, "details", {})
            return Verification.failed(Failure(kind=error_.kind, reason=str(error_)[:2000], stage="verify"), details)
        except Exception as bug:
            log.exception("verify raised")
            reason = f"{type(bug).__name__}: {bug}"[:2000]
            return Verification.failed(Failure(kind=FailureKind.VERIFIER_ERROR, reason=reason, stage="verify"))
        if failure is None or verification.failure is not None:
            return verification
        return verification.model_copy(update={"failure": failure})


def _failure_of(response: ResponsesReply) -> Failure | None:
    """What kept the agent from ending as it should."""
    error = response.error
    if error is None:
        return None
    kind = kind_of_word(error.code) or FailureKind.INTERNAL
    return Failure(kind=kind, reason=error.message[:2000], stage="respond")
