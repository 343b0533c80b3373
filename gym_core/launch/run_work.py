"""What a run has to do: which rollouts, under which manifest, and how each is played. Here, the tasks of a dataset."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from gym_core.capture.images import AssetStore
from gym_core.datasets.digest import sha256_of
from gym_core.episode import EpisodeServers, EpisodeStorage
from gym_core.launch.activity import Playing
from gym_core.launch.identity import identity_hash
from gym_core.launch.plan import DatasetEntry, EnvironmentEntry
from gym_core.launch.player import EpisodePlayer, PendingTasks, SequencingPlayer
from gym_core.launch.run_tasks import choose_dataset, load_tasks
from gym_core.rollout.collect import PlayEpisode
from gym_core.rollout.output import OutputFiles, RunManifest, RunOutput, may_be_mended
from gym_core.rollout.plan import plan_rollouts
from gym_core.statistics.outcome import Outcome
from gym_core.types.rollout import RolloutRecord, RunRequest
from gym_core.types.run import RunOptions
from gym_core.types.session import Sampling
from gym_core.types.task import Task


@dataclass(frozen=True)
class RunSetting:
    """What the head server hands to a run."""

    environment: EnvironmentEntry
    servers: EpisodeServers
    sampling: Sampling
    versions: dict[str, str]
    argv: list[str]
    logs_dir: Path
    playing: Playing = field(default_factory=Playing)
    """The run's own."""


@dataclass(frozen=True)
class RunJob:
    """A run as its work sees it."""

    options: RunOptions
    setting: RunSetting
    files: OutputFiles
    pending: PendingTasks

    def player(self, output: RunOutput) -> SequencingPlayer:
        """Whole episodes."""
        storage = EpisodeStorage(output.assets, self.files.captures)
        return SequencingPlayer(EpisodePlayer(self.setting.servers, storage, self.pending, self.setting.playing))


@dataclass(frozen=True)
class Work:
    """What one run has left to do."""

    requests: list[RunRequest]
    settled: list[Outcome] = field(default_factory=list)
    """Of rollouts that were written without being played."""


class RunWork(Protocol):
    """Raises ConfigError for what the user can mend."""

    plays_policy: ClassVar[bool]
    """Whether the policy's endpoint is needed, and so looked at first."""

    def load(self) -> RunManifest:
        """Read what is worked on, before the output is opened. Blocking."""

    async def begin(self, output: RunOutput) -> Work:
        """What is left, once it is known what earlier runs into the same file did."""

    def player(self, output: RunOutput) -> PlayEpisode:
        """How each of them is played."""

    def is_worth_retrying(self, record: RolloutRecord) -> bool:
        """Whether a resume tries a masked rollout again."""


class DatasetWork:
    """Play each task of a dataset, so many times."""

    plays_policy: ClassVar[bool] = True

    def __init__(self, job: RunJob) -> None:
        self._job = job
        self._dataset: DatasetEntry | None = None
        self._tasks: list[Task] = []

    def load(self) -> RunManifest:
        dataset = self._dataset = choose_dataset(self._job.setting.environment, self._job.options.split)
        self._tasks = load_tasks(
            dataset,
            AssetStore(self._job.files.assets),
            limit=self._job.options.limit,
            sampling=self._job.setting.sampling,
        )
        identity = self._job.setting.environment.identity
        return RunManifest(
            run_hash=identity_hash(identity),
            identity=identity,
            versions=self._job.setting.versions,
            datasets={dataset.name: {"path": dataset.path, "sha256": sha256_of(Path(dataset.path))}},
            prices=self._job.setting.environment.prices,
            options=self._job.options.model_dump(mode="json"),
            argv=self._job.setting.argv,
        )

    async def begin(self, output: RunOutput) -> Work:
        assert self._dataset is not None
        return Work(
            plan_rollouts(
                self._tasks,
                repeats=self._job.options.num_repeats or self._dataset.num_repeats,
                environment=self._job.setting.environment.name,
                done=output.done,
                attempts=output.attempts(),
            )
        )

    def player(self, output: RunOutput) -> PlayEpisode:
        return self._job.player(output)

    def is_worth_retrying(self, record: RolloutRecord) -> bool:
        return may_be_mended(record)
