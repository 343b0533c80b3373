"""POST /environments/{name}/run inside the head server: one flat row in, one finished row out."""

import asyncio
import secrets
import time
from pathlib import Path

import msgspec

from gym_core.capture.images import AssetStore
from gym_core.episode import EpisodeStorage
from gym_core.export.samples import SessionReading, read_session
from gym_core.launch.identity import identity_hash
from gym_core.launch.kept_folders import KeptFolders
from gym_core.launch.player import EpisodePlayer
from gym_core.launch.policy_check import RecentLooks
from gym_core.launch.run_tasks import row_task
from gym_core.launch.run_work import RunSetting
from gym_core.types.flat_row import flat_from_record
from gym_core.types.model_call import EndpointReport
from gym_core.types.rollout import Completed, RolloutKey, RolloutRecord, RunRequest
from gym_core.types.task import Task
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject

MAX_AT_ONCE = 256
"""More wait."""
MAX_KEPT = 256
"""Rows that ended whose pictures and calls are kept."""


class SingleRows:
    def __init__(self, folder: Path, pending: set["asyncio.Task[None]"]) -> None:
        """`pending`: clean-up that the owner waits for before it exits."""
        self.folders = KeptFolders(folder, most=MAX_KEPT)
        self._pending = pending
        self._looks = RecentLooks()
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)

    async def play(self, setting: RunSetting, body: bytes, *, wants_samples: bool) -> bytes:
        """The finished row as JSON, whatever became of it after one attempt; with `samples`, when they are wanted.

        Raises ValueError and InvalidTask for a row that is none, ModelUnavailable when samples are wanted and the
        endpoint does not answer.
        """
        name = f"x{secrets.token_hex(8)}"
        async with self._slots:
            await asyncio.to_thread(self.folders.prune)
            with self.folders.using(name) as folder:
                storage = EpisodeStorage(AssetStore(folder / "assets"), folder / "captures")
                task = await asyncio.to_thread(_read_task, body, setting, storage.assets)
                endpoint = None
                if wants_samples:
                    endpoint = await self._looks.report(setting.servers.policy)
                record = await self._record(setting, task, name, storage)
                return await asyncio.to_thread(_encoded, record, storage, endpoint, wants_samples)

    async def _record(self, setting: RunSetting, task: Task, rollout_id: str, storage: EpisodeStorage) -> RolloutRecord:
        environment = setting.environment
        request = RunRequest(
            key=RolloutKey(task_hash=task.content_hash(), repeat=0),
            task_index=0,
            task=task,
            environment=environment.name,
            rollout_id=rollout_id,
        )
        result = await EpisodePlayer(setting.servers, storage, self._pending)(request, 0)
        verification = result.verification if isinstance(result, Completed) else Verification.failed(result.failure)
        return RolloutRecord(
            key=request.key,
            run_hash=identity_hash(environment.identity),
            task_index=0,
            environment=environment.name,
            task=task,
            evidence=result.evidence,
            verification=verification,
            attempts=1,
            finished_at=time.time(),
        )


def _read_task(body: bytes, setting: RunSetting, assets: AssetStore) -> Task:
    """Decodes and stores pictures. Raises ValueError, InvalidTask."""
    try:
        row = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    return row_task(row, assets, taskset=setting.environment.name, index=0, sampling=setting.sampling)


def _encoded(
    record: RolloutRecord, storage: EpisodeStorage, endpoint: EndpointReport | None, wants_samples: bool
) -> bytes:
    reading = read_session(record, storage.captures_dir, storage.assets, endpoint=endpoint, branches="all")
    row = _row(record, reading)
    if wants_samples:
        row["samples"] = [sample.model_dump() for sample in reading.samples]
        row["no_samples"] = reading.missing
    return msgspec.json.encode(row)


def _row(record: RolloutRecord, reading: SessionReading) -> JsonObject:
    evidence = record.evidence.model_copy(update={"sequences": reading.summary})
    return flat_from_record(record.model_copy(update={"evidence": evidence}))
