"""GRPO through a gym: draw tasks, ask for groups of rollouts, step, hand the engine the new weights, again."""

import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from examples.tiny_grpo.engine import Engine
from examples.tiny_grpo.pictures import Task, draw_task
from examples.tiny_grpo.policy import ImageBytes, StepReport, TinyPolicy
from examples.tiny_grpo.warmup import warm_up
from gym_core.capture.images import parse_data_url
from gym_core.client import GymClient
from gym_core.types.policy import PauseMode
from gym_core.types.sample import TrainingSample
from gym_core.types.session import Sampling
from gym_core.types.trainer import GroupOptions, RolloutLine, RolloutsRequest

MAX_ANSWER_TOKENS = 8

Control = Literal["none", "blind", "wrong_picture"]
"""Runs that must fail: "blind" shows the policy black pictures; "wrong_picture" gives the trainer another picture than
the policy saw, so that its log-probabilities cannot agree with the captured ones."""


@dataclass(frozen=True)
class Settings:
    steps: int = 120
    tasks_per_step: int = 8
    group_size: int = 8
    learning_rate: float = 5e-4
    seed: int = 0
    control: Control = "none"


@dataclass(frozen=True)
class TrainingStep:
    index: int
    reward: float
    """Mean over the step's rollouts."""
    report: StepReport
    masked: int


@dataclass
class Trainer:
    policy: TinyPolicy
    gym: GymClient
    engine: Engine
    settings: Settings
    _images: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.settings.seed)

    async def warm_up(self) -> float:
        """The imitation loss it ends with."""
        samples = await self._rollouts([self._task() for _ in range(16)], group_size=1)
        loss = warm_up(self.policy, samples, self._image, self._rng)
        self.policy.set_learning_rate(self.settings.learning_rate)
        await self._publish(0)
        return loss

    async def train(self) -> AsyncIterator[TrainingStep]:
        for index in range(self.settings.steps):
            tasks = [self._task() for _ in range(self.settings.tasks_per_step)]
            samples = await self._rollouts(tasks, group_size=self.settings.group_size)
            usable = [sample for sample in samples if not sample.mask and sample.advantage is not None]
            report = self.policy.step(usable, self._seen_by_trainer(tasks))
            await self._publish(index + 1)
            rewards = [sample.reward for sample in samples if sample.reward is not None]
            yield TrainingStep(index, sum(rewards) / len(rewards), report, len(samples) - len(usable))

    def _task(self) -> Task:
        return draw_task(self._rng, is_blind=self.settings.control == "blind")

    async def _rollouts(self, tasks: list[Task], *, group_size: int) -> list[TrainingSample]:
        request = RolloutsRequest(
            environment="colour_naming_environment",
            rows=[task.row() for task in tasks],
            num_repeats=group_size,
            num_samples_in_parallel=16,
            sampling=Sampling(temperature=1.0, top_p=1.0, max_output_tokens=MAX_ANSWER_TOKENS),
            images="inline",
            group=GroupOptions(advantage="normalized") if group_size > 1 else None,
        )
        samples: list[TrainingSample] = []
        async for line in self.gym.rollouts(request):
            if isinstance(line, RolloutLine):
                samples += line.samples
        for picture in (picture for sample in samples for picture in sample.images):
            if picture.data_url and picture.sha256 not in self._images:
                self._images[picture.sha256] = parse_data_url(picture.data_url)
        return samples

    def _image(self, sha256: str) -> bytes:
        return self._images[sha256]

    def _seen_by_trainer(self, tasks: list[Task]) -> ImageBytes:
        if self.settings.control != "wrong_picture":
            return self._image
        return _Swapped(self._images)

    async def _publish(self, version: int) -> None:
        """New weights into the engine, while no call is under way."""
        self.policy.save()
        await self.gym.pause(PauseMode.DRAIN)
        await self.engine.reload_weights()
        await self.gym.set_version(version)
        await self.gym.resume()


class _Swapped:
    """Each picture's place is taken by the next one's, of all that were seen."""

    def __init__(self, images: Mapping[str, bytes]) -> None:
        names = list(images)
        self._images = {name: images[names[position - 1]] for position, name in enumerate(names)}

    def __call__(self, sha256: str) -> bytes:
        return self._images[sha256]
