"""POST /v1/rollouts inside the head server: requests read and checked, streams opened, replayed, and taken over.

A request has a folder under the head's state: its journal, pictures and calls. One with an idempotency key is found
again by it for as long as the folder is kept and the state folder stays, which is one gym's life.
"""

import asyncio
import hashlib
import logging
import secrets
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from gym_core.capture.images import AssetStore
from gym_core.episode import VERIFY_TIMEOUT_S, EpisodeStorage
from gym_core.errors import ConfigError, EpisodeError, FailureKind, InvalidTask, SessionError, TransportError
from gym_core.export.samples import read_session
from gym_core.launch.identity import identity_hash
from gym_core.launch.kept_folders import KeptFolders
from gym_core.launch.player import EpisodePlayer
from gym_core.launch.policy_check import check_policy
from gym_core.launch.rollout_lines import LineMaker
from gym_core.launch.rollout_stream import RolloutsPlan, RolloutStream, StreamParts
from gym_core.launch.run_tasks import choose_dataset, has_images, load_tasks, override_sampling, row_task
from gym_core.launch.run_work import RunSetting
from gym_core.rollout.output import write_json
from gym_core.rollout.plan import plan_rollouts
from gym_core.types.group_reward import GroupRewardAbility, GroupRewardReply, GroupRewardRequest
from gym_core.types.model_call import EndpointReport
from gym_core.types.policy import PolicyState
from gym_core.types.rollout import RunRequest
from gym_core.types.task import Task
from gym_core.types.trainer import MAX_ROLLOUTS, ErrorLine, RolloutsRequest
from gym_core.types.verification import ShapingTerms
from gym_core.types.wire import JsonObject, Wire

log = logging.getLogger(__name__)

MAX_LIVE = 64
"""Requests that are played at once."""
MAX_KEPT = 32
"""Requests that ended whose journal and pictures are kept."""
SUPERSEDED = "superseded"
NOTE = "request.json"
"""In the folder of each request that was accepted."""

ChooseSetting = Callable[[str | None, str | None], RunSetting]
"""Environment name, or the split that finds it; None for the only one there is. Raises InvalidTask, TransportError."""


@dataclass
class _Claim:
    """The one use of a folder."""

    is_superseded: asyncio.Event = field(default_factory=asyncio.Event)
    is_released: asyncio.Event = field(default_factory=asyncio.Event)
    stream: RolloutStream | None = None


class _Note(Wire):
    """`NOTE`: whose folder this is."""

    request_sha256: str
    endpoint: EndpointReport
    """As it was seen when the request began: one that goes on keeps to it, and a replay needs no endpoint."""


class RolloutRequests:
    def __init__(self, folder: Path, setting: ChooseSetting) -> None:
        self._root = folder
        self.folders = KeptFolders(folder, most=MAX_KEPT)
        self._setting = setting
        self._claims: dict[str, _Claim] = {}

    async def open(self, body: bytes, header_key: str | None) -> RolloutStream:
        """A stream that is ready to play; whoever gets it closes it.

        Raises ValueError, InvalidTask and ConfigError for what is wrong with the request, ModelUnavailable for an
        endpoint that cannot play, SessionError (409) for a key of another request.
        """
        request = await asyncio.to_thread(read_request, body, header_key)
        if len(self._claims) >= MAX_LIVE:
            raise EpisodeError(f"{MAX_LIVE} requests are being played", kind=FailureKind.PROVIDER_UNAVAILABLE)
        setting = self._setting(request.environment, None if request.rows is not None else request.split)
        name = _folder_name(request.idempotency_key)
        await asyncio.to_thread(self.folders.prune)
        # Before the live stream of the key, if there is one, is taken over.
        await asyncio.to_thread(lambda: _noted(self._root / name, _sha256_of(request)))
        with ExitStack() as undo:
            claim = await self._claim(name)
            undo.callback(self._release, name, claim)
            folder = undo.enter_context(self.folders.using(name))
            undo.callback(_forget_refused, folder)
            stream = await self._prepared(request, setting, folder, claim, undo)
            claim.stream = stream
            return stream

    async def aclose(self) -> None:
        error = ErrorLine(kind=FailureKind.SHUTDOWN, message="the gym is ending")
        streams = [claim.stream for claim in self._claims.values() if claim.stream is not None]
        await asyncio.gather(*(stream.stop(error) for stream in streams))

    # -- one stream a key ----------------------------------------------------

    async def _claim(self, name: str) -> _Claim:
        """The newest request of a key has it: a caller whose connection broke unnoticed must not wait for itself."""
        while (old := self._claims.get(name)) is not None:
            old.is_superseded.set()
            if old.stream is not None:
                await old.stream.stop(ErrorLine(kind=SUPERSEDED, message="the same request was sent again"))
            await old.is_released.wait()
        claim = self._claims[name] = _Claim()
        return claim

    def _release(self, name: str, claim: _Claim) -> None:
        del self._claims[name]
        claim.is_released.set()

    # -- getting ready -------------------------------------------------------

    async def _prepared(
        self, request: RolloutsRequest, setting: RunSetting, folder: Path, claim: _Claim, undo: ExitStack
    ) -> RolloutStream:
        preparing = asyncio.create_task(self._prepare(request, setting, folder))
        superseded = asyncio.create_task(claim.is_superseded.wait())
        try:
            await asyncio.wait({preparing, superseded}, return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                raise SessionError("the same request was sent again", kind=FailureKind.SESSION_CONFLICT)
            plan, parts = preparing.result()
        finally:
            superseded.cancel()
            preparing.cancel()
            await asyncio.wait({preparing, superseded})
        return RolloutStream(plan, parts, undo.pop_all().close)

    async def _prepare(
        self, request: RolloutsRequest, setting: RunSetting, folder: Path
    ) -> tuple[RolloutsPlan, StreamParts]:
        request_sha256 = await asyncio.to_thread(_sha256_of, request)
        note = await asyncio.to_thread(_noted, folder, request_sha256)
        storage = EpisodeStorage(AssetStore(folder / "assets"), folder / "captures")
        prompts = await asyncio.to_thread(_read_prompts, request, setting, storage.assets)
        endpoint = note.endpoint if note else await _looked_at(setting, prompts)
        _check_tokens(request, endpoint)
        # Last of all: a request that is refused does not use up its key.
        note = _Note(request_sha256=request_sha256, endpoint=endpoint)
        await asyncio.to_thread(write_json, folder / NOTE, note.model_dump(mode="json"))
        request = request.model_copy(update={"rows": None})  # their pictures are on disk by now
        plan = RolloutsPlan(
            request=request,
            prompts=prompts,
            run_hash=identity_hash(setting.environment.identity),
            num_samples_in_parallel=setting.environment.bounded_parallel(request.num_samples_in_parallel),
        )
        reading = partial(
            read_session,
            captures_dir=storage.captures_dir,
            assets=storage.assets,
            endpoint=endpoint,
            branches=request.branches,
        )
        rewards_groups = request.group is not None and await _rewards_groups(setting)
        pending: set[asyncio.Task[None]] = set()
        parts = StreamParts(
            play=EpisodePlayer(setting.servers, storage, pending),
            pending=pending,
            lines=LineMaker(request, storage, reading, rewards_groups),
            journal_path=folder / "rollouts.jsonl",
            current_version=partial(_policy_version, setting),
            reward_group=partial(_reward_group, setting) if rewards_groups else None,
        )
        return plan, parts


def read_request(body: bytes, header_key: str | None) -> RolloutsRequest:
    """Raises ValueError. Blocking: a body may hold a hundred megabytes of pictures."""
    request = RolloutsRequest.from_json(body)
    if header_key is None:
        return request
    if request.idempotency_key not in (None, header_key):
        raise ValueError("the header Idempotency-Key and the field idempotency_key differ")
    if not 0 < len(header_key) <= 200:
        raise ValueError("Idempotency-Key: 1 to 200 characters")
    return request.model_copy(update={"idempotency_key": header_key})


def _folder_name(key: str | None) -> str:
    if key is None:
        return f"r{secrets.token_hex(8)}"
    return f"k{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _forget_refused(folder: Path) -> None:
    """The folder of a request that was never accepted: it must not push one out that is kept."""
    if not (folder / NOTE).exists():
        shutil.rmtree(folder, ignore_errors=True)


def _noted(folder: Path, request_sha256: str) -> _Note | None:
    """What an earlier stream of this request left; None for the first one. Raises SessionError (409) when the folder is
    of another request."""
    try:
        note = _Note.model_validate_json((folder / NOTE).read_bytes())
    except FileNotFoundError:
        return None
    if note.request_sha256 != request_sha256:
        what = "this idempotency key was used for a request with another body"
        raise SessionError(what, kind=FailureKind.SESSION_CONFLICT)
    return note


def _sha256_of(request: RolloutsRequest) -> str:
    return hashlib.sha256(msgspec.json.encode(request.model_dump(), order="sorted")).hexdigest()


def _read_prompts(request: RolloutsRequest, setting: RunSetting, assets: AssetStore) -> list[list[RunRequest]]:
    environment = setting.environment
    if request.rows is None:
        dataset = choose_dataset(environment, request.split)
        tasks = load_tasks(dataset, assets, limit=request.limit, sampling=setting.sampling, start=request.start)
    else:
        tasks = [_read_row(row, index, assets, setting) for index, row in enumerate(request.rows)]
    if len(tasks) * request.num_repeats > MAX_ROLLOUTS:
        raise ConfigError(f"{len(tasks)} tasks x {request.num_repeats} repeats: more than {MAX_ROLLOUTS} rollouts")
    tasks = [override_sampling(task, request.sampling) for task in tasks]
    planned = plan_rollouts(tasks, repeats=request.num_repeats, environment=environment.name, allow_twins=True)
    if request.start:
        planned = [_moved(one, request.start) for one in planned]
    return [planned[index :: len(tasks)] for index in range(len(tasks))]


def _read_row(row: object, index: int, assets: AssetStore, setting: RunSetting) -> Task:
    try:
        return row_task(row, assets, taskset=setting.environment.name, index=index, sampling=setting.sampling)
    except (ValueError, InvalidTask) as error:
        raise InvalidTask(f"rows[{index}]: {error}") from error


def _moved(request: RunRequest, start: int) -> RunRequest:
    """With its position in the whole dataset."""
    index = request.task_index + start
    rollout_id = f"t{index}-{request.rollout_id.partition('-')[2]}"
    return request.model_copy(update={"task_index": index, "rollout_id": rollout_id})


async def _looked_at(setting: RunSetting, prompts: list[list[RunRequest]]) -> EndpointReport:
    wants_images = any(has_images(prompt[0].task) for prompt in prompts)
    return await check_policy(setting.servers.policy, needs_images=wants_images)


def _check_tokens(request: RolloutsRequest, endpoint: EndpointReport) -> None:
    if not request.samples or not request.require_token_ids or (endpoint.gives_token_ids and endpoint.gives_logprobs):
        return
    missing = [
        name
        for name, is_there in (("token ids", endpoint.gives_token_ids), ("log-probabilities", endpoint.gives_logprobs))
        if not is_there
    ]
    raise ConfigError(
        f"policy endpoint {endpoint.model!r} gives no {' and no '.join(missing)}: there is nothing to train on. vLLM "
        "gives them to `return_token_ids` and `logprobs`; `require_token_ids: false` plays without, `samples: false` "
        "asks for rewards only"
    )


async def _rewards_groups(setting: RunSetting) -> bool:
    """Whether the environment has rewards that depend on siblings. NeMo Gym's servers know no such route."""
    try:
        found = await setting.servers.resources.call("GET", "/group_rewards", None, GroupRewardAbility, timeout_s=30)
    except EpisodeError as error:
        log.info("no rewards of groups", extra={"reason": str(error)[:200]})
        return False
    return found.rewards_groups


async def _reward_group(setting: RunSetting, rows: list[JsonObject]) -> list[ShapingTerms]:
    request = GroupRewardRequest(rows=rows)
    reply = await setting.servers.resources.call_raw(
        "POST", "/group_rewards", await asyncio.to_thread(request.to_json), timeout_s=VERIFY_TIMEOUT_S
    )
    try:
        return GroupRewardReply.model_validate_json(reply).terms
    except ValueError as error:
        raise TransportError(f"resources server: not rewards of a group: {error}"[:600]) from error


async def _policy_version(setting: RunSetting) -> int | None:
    return (await setting.servers.policy.call("GET", "/v1/policy", None, PolicyState, timeout_s=10)).version
