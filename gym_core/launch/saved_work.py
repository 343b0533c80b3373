"""Work on the rollouts of a saved run: its answers graded again, or its tasks played again. Its files stay as they are.

What comes out is a run of its own, by every reader's standard.
"""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gym_core.capture.images import AssetStore, image_urls, parse_reference
from gym_core.capture.recorder import CAPTURE_SUFFIX
from gym_core.episode import Episode, EpisodeServers, EpisodeStorage
from gym_core.errors import ConfigError
from gym_core.launch.identity import identity_hash
from gym_core.launch.player import PendingTasks
from gym_core.launch.run_tasks import copy_asset
from gym_core.launch.run_work import RunJob, Work
from gym_core.rollout.collect import PlayEpisode
from gym_core.rollout.journal import Place
from gym_core.rollout.output import Derivation, OutputFiles, RunManifest, RunOutput, may_be_mended, request_of
from gym_core.rollout.saved import (
    SavedRun,
    has_recorded_calls,
    is_regradable,
    known_manifest,
    lacks_only_its_grade,
    no_recorded_calls,
)
from gym_core.statistics.outcome import Outcome, outcome_of
from gym_core.types.rollout import EpisodeResult, Failed, RolloutKey, RolloutRecord, RunRequest
from gym_core.types.run import Rejudge, Replay
from gym_core.types.wire import JsonObject


class RejudgeWork:
    """Each answer of the saved run once more to its resources server; every other row is taken over."""

    plays_policy: ClassVar[bool] = False

    def __init__(self, use: Rejudge, job: RunJob) -> None:
        self._use = use
        self._job = job
        self._saved = open_saved(use.path, job.files)
        self._judged: dict[RolloutKey, Place] = {}
        self._kept: dict[RolloutKey, Place] = {}
        self._requests: list[RunRequest] = []

    def load(self) -> RunManifest:
        saved, before = self._saved, known_manifest(self._saved)
        is_chosen = lacks_only_its_grade if self._use.only_masked else is_regradable
        for place, record in saved.placed_records():
            if is_chosen(record):
                self._judged[record.key] = place
                self._requests.append(request_of(record).model_copy(update={"first_attempt": record.attempts - 1}))
            else:
                self._kept[record.key] = place
        self._refuse_nothing()
        link_files(saved.files.assets, self._job.files.assets)
        link_files(saved.files.captures, self._job.files.captures, suffix=CAPTURE_SUFFIX)
        identity = self._identity(before)
        return before.model_copy(
            update={
                "run_hash": identity_hash(identity),
                "identity": identity,
                "versions": self._job.setting.versions,
                "prices": before.prices.model_copy(update={"judge": self._job.setting.environment.prices.judge}),
                "options": self._job.options.model_dump(mode="json"),
                "argv": self._job.setting.argv,
                "derived_from": Derivation(
                    kind="rejudge",
                    path=self._use.path,
                    run_hash=before.run_hash,
                    only_masked=self._use.only_masked,
                ),
            }
        )

    async def begin(self, output: RunOutput) -> Work:
        settled: list[Outcome] = []
        done = output.done
        for key, place in self._kept.items():
            if key not in done:
                record = await asyncio.to_thread(self._saved.record_at, place)
                await output.append(record.model_copy(update={"run_hash": output.run_hash}))
                settled.append(outcome_of(record))
        return Work([request for request in self._requests if request.key not in done], settled)

    def player(self, output: RunOutput) -> PlayEpisode:
        storage = EpisodeStorage(output.assets, self._job.files.captures)
        return Regrading(self._saved, self._judged, self._job.setting.servers, storage, self._job.pending)

    def is_worth_retrying(self, record: RolloutRecord) -> bool:
        return lacks_only_its_grade(record)

    def _identity(self, before: RunManifest) -> JsonObject:
        """Of the first run, with the blocks that grade as they are now; a sandbox is what it was played in."""
        environment = self._job.setting.environment
        played: JsonObject = before.identity.get("servers", {})
        grading = {
            name: block
            for name, block in environment.identity.get("servers", {}).items()
            if name not in (environment.agent_server, environment.policy_server)
        }
        resources = environment.resources_server
        sandbox = {key: value for key, value in played.get(resources, {}).items() if key.startswith("sandbox_")}
        grading[resources] = grading.get(resources, {}) | sandbox
        rejudged = {"run_hash": before.run_hash, "only_masked": self._use.only_masked}
        return before.identity | {"servers": played | grading, "rejudged": rejudged}

    def _refuse_nothing(self) -> None:
        if self._judged:
            return
        path = self._saved.files.rollouts
        if not self._kept:
            raise ConfigError(f"rejudge: {path}: no finished rollouts")
        what = "no row lacks only its grade" if self._use.only_masked else "no row has an answer that reached grading"
        raise ConfigError(f"rejudge: {path}: {what}: there is nothing to judge")


@dataclass(frozen=True)
class Regrading:
    """Plays a rollout by handing its saved answer to the resources server."""

    saved: SavedRun
    places: dict[RolloutKey, Place]
    servers: EpisodeServers
    storage: EpisodeStorage
    pending: PendingTasks

    async def __call__(self, request: RunRequest, attempt: int) -> EpisodeResult:
        record = await asyncio.to_thread(self.saved.record_at, self.places[request.key])
        response = record.evidence.response
        assert response is not None  # a row without one is not chosen
        result = await Episode(request, attempt, self.servers, self.storage, self.pending).regrade(response)
        if isinstance(result, Failed):  # in whatever step: the answer is there, its grade is missing
            failure = result.failure.model_copy(update={"stage": "verify"})
            return Failed(evidence=record.evidence, failure=failure)
        return result.model_copy(update={"evidence": record.evidence})


class ReplayWork:
    """Each rollout of the saved run that has recorded calls, played again with its task, its repeat and its name."""

    plays_policy: ClassVar[bool] = True

    def __init__(self, use: Replay, job: RunJob) -> None:
        self._use = use
        self._job = job
        self._saved = open_saved(use.path, job.files)
        self._requests: list[RunRequest] = []

    def load(self) -> RunManifest:
        run_hash = None
        for record in self._saved.outlines():
            run_hash = record.run_hash
            if has_recorded_calls(record, self._saved):
                self._requests.append(request_of(record))
        if run_hash is None:
            raise ConfigError(f"replay: {self._saved.files.rollouts}: no finished rollouts")
        if not self._requests:
            raise no_recorded_calls(self._saved)
        self._requests = self._requests[: self._job.options.limit]
        for request in self._requests:
            self._take_images(request)
        identity = self._job.setting.environment.identity
        before = self._saved.manifest
        return RunManifest(
            run_hash=identity_hash(identity),
            identity=identity,
            versions=self._job.setting.versions,
            datasets=before.datasets if before else {},
            prices=self._job.setting.environment.prices,
            options=self._job.options.model_dump(mode="json"),
            argv=self._job.setting.argv,
            derived_from=Derivation(kind="replay", path=self._use.path, run_hash=run_hash),
        )

    async def begin(self, output: RunOutput) -> Work:
        done, spent = output.done, output.attempts()
        left = [request for request in self._requests if request.key not in done]
        return Work([r.model_copy(update={"first_attempt": spent.get(r.key, 0)}) for r in left])

    def player(self, output: RunOutput) -> PlayEpisode:
        return self._job.player(output)

    def is_worth_retrying(self, record: RolloutRecord) -> bool:
        return may_be_mended(record)

    def _take_images(self, request: RunRequest) -> None:
        assets = AssetStore(self._job.files.assets)
        for url in image_urls(request.task.responses_create_params):
            sha256 = parse_reference(url)
            if not self._saved.assets.path(sha256).is_file():
                raise ConfigError(
                    f"replay: picture {sha256} of task {request.task.id.task_id!r} is missing from "
                    f"{self._saved.assets.folder}: copy that folder along with the rollouts"
                )
            copy_asset(self._saved.assets, assets, sha256)


def open_saved(path: str, output: OutputFiles) -> SavedRun:
    """Raises ConfigError."""
    saved = SavedRun(Path(path).expanduser().absolute())
    if saved.files.rollouts.resolve() == output.rollouts.resolve():
        raise ConfigError(f"{output.rollouts}: the results would go over the saved run; choose another --output")
    return saved


def link_files(source: Path, target: Path, *, suffix: str = "") -> None:
    """Each plain file of a folder in another one too, without costing its bytes where the file system can. Blocking."""
    for path in _plain_files(source, suffix):
        there = target / path.name
        if there.exists():
            continue
        target.mkdir(parents=True, exist_ok=True)
        try:
            there.hardlink_to(path)
        except OSError:
            shutil.copyfile(path, there)


def _plain_files(folder: Path, suffix: str) -> Iterator[Path]:
    if folder.is_dir():
        yield from (
            path
            for path in sorted(folder.iterdir())
            if path.name.endswith(suffix) and not path.name.startswith(".") and path.is_file() and not path.is_symlink()
        )
