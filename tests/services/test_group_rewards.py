"""Rewards that depend on siblings: asked when a group is complete, in its advantages and samples, and in no score."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gym_core.types.rollout import RolloutRecord
from gym_core.types.trainer import EndLine, GroupLine, RolloutLine, RolloutsRequest
from gym_core.types.wire import JsonObject
from resources_servers.echo.app import EchoServer
from tests.fakes.trainer_gym import TrainerGym, make_row, trainer_gym

Line = RolloutLine | GroupLine | EndLine


class RankingEcho(EchoServer):
    """A shorter answer than the siblings' is worth more: 0.1 for each longer one."""

    asked = 0

    @property
    def rewards_groups(self) -> bool:
        return True

    async def reward_group(self, records: Sequence[RolloutRecord]) -> Sequence[dict[str, float]]:
        self.asked += 1
        lengths = [len(record.evidence.response.final_text) for record in records if record.evidence.response]
        return [{"short": 0.1 * sum(other > own for other in lengths)} for own in lengths]


class BrokenRanking(RankingEcho):
    async def reward_group(self, records: Sequence[RolloutRecord]) -> Sequence[dict[str, float]]:
        raise KeyError("no ranking")


class ShortRanking(RankingEcho):
    async def reward_group(self, records: Sequence[RolloutRecord]) -> Sequence[dict[str, float]]:
        return [{"short": 1.0}]


class ClashingRanking(RankingEcho):
    async def reward_group(self, records: Sequence[RolloutRecord]) -> Sequence[dict[str, float]]:
        return [{"accuracy": 1.0} for _ in records]


def longer_each_time(gym: TrainerGym) -> None:
    said = 0

    def rule(_: list[JsonObject]) -> str:
        nonlocal said
        said += 1
        return "teapot" + "!" * said

    gym.inside.endpoint.rule = rule


async def lines_of(gym: TrainerGym, **more: object) -> list[Line]:
    asked = {"rows": [make_row("a")], "num_repeats": 3, "num_samples_in_parallel": 1, "group": {}} | more
    return [line async for line in gym.client.rollouts(RolloutsRequest.model_validate(asked))]


def rollouts(lines: list[Line]) -> list[RolloutLine]:
    return [line for line in lines if isinstance(line, RolloutLine)]


async def test_they_are_in_rewards_components_samples_and_advantages_and_in_no_score(tmp_path: Path) -> None:
    async with trainer_gym(tmp_path, resources_type=RankingEcho) as gym:
        longer_each_time(gym)
        lines = await lines_of(gym)
        found = rollouts(lines)
        assert [line.reward for line in found] == pytest.approx([1.2, 1.1, 1.0])
        assert [line.advantage for line in found] == pytest.approx([0.1, 0.0, -0.1])
        assert found[0].reward_components == pytest.approx({"accuracy": 1.0, "short": 0.2})
        for line in found:
            (sample,) = line.samples
            assert (sample.reward, sample.reward_components) == (line.reward, line.reward_components)
            assert line.row is not None
            assert (line.row["reward"], line.row["reward_shaping"]) == (1.0, {})
        group, end = lines[-2:]
        assert isinstance(group, GroupLine)
        assert isinstance(end, EndLine)
        assert (group.statistics.mean, end.mean_reward) == (pytest.approx(1.1), 1.0)
        assert group.no_group_rewards is None


async def test_rows_that_were_not_asked_for_are_not_sent(tmp_path: Path) -> None:
    async with trainer_gym(tmp_path, resources_type=RankingEcho) as gym:
        longer_each_time(gym)
        found = rollouts(await lines_of(gym, include_row=False))
        assert [line.row for line in found] == [None] * 3
        assert [line.reward for line in found] == pytest.approx([1.2, 1.1, 1.0])


async def test_a_replay_has_them_and_nobody_is_asked_again(tmp_path: Path) -> None:
    async with trainer_gym(tmp_path, resources_type=RankingEcho) as gym:
        longer_each_time(gym)
        first = await lines_of(gym, idempotency_key="k")
        server = gym.inside.resources
        assert isinstance(server, RankingEcho)
        assert server.asked == 1
        again = await lines_of(gym, idempotency_key="k")
        assert (rollouts(again), server.asked) == (rollouts(first), 1)
        end = again[-1]
        assert isinstance(end, EndLine)
        assert (end.rollouts, end.replayed, end.mean_reward) == (3, 3, 1.0)


async def test_without_groups_nobody_is_asked(tmp_path: Path) -> None:
    async with trainer_gym(tmp_path, resources_type=RankingEcho) as gym:
        longer_each_time(gym)
        found = rollouts(await lines_of(gym, group=None))
        server = gym.inside.resources
        assert isinstance(server, RankingEcho)
        assert ([line.reward for line in found], server.asked) == ([1.0] * 3, 0)


class MuchRanking(RankingEcho):
    async def reward_group(self, records: Sequence[RolloutRecord]) -> Sequence[dict[str, float]]:
        return [{"short": 10.5} for _ in records]


class BonusRanking(RankingEcho):
    async def reward_group(self, records: Sequence[RolloutRecord]) -> Sequence[dict[str, float]]:
        return [{"tool_bonus": 1.0} for _ in records]


@pytest.mark.parametrize(
    ("resources_type", "why"),
    [
        (BrokenRanking, "rewards of a group: KeyError: 'no ranking'"),
        (ShortRanking, "1 rewards for 3 rollouts"),
        (ClashingRanking, "named as those of a rollout: ['accuracy']"),
        (MuchRanking, "should be less than or equal to 10"),
        (BonusRanking, "named as those of a rollout: ['tool_bonus']"),
    ],
)
async def test_a_group_that_was_not_rewarded_says_why_and_is_not_measured_and_not_trained(
    tmp_path: Path, resources_type: type[EchoServer], why: str
) -> None:
    async with trainer_gym(tmp_path, resources_type=resources_type) as gym:
        longer_each_time(gym)
        lines = await lines_of(gym, group={"tool_bonus": 0.1})
        for line in rollouts(lines):
            assert (line.unmeasured, line.advantage) == ("no_group_rewards", None)
            assert [(sample.mask, sample.mask_reason) for sample in line.samples] == [(True, "no_group_rewards")]
        group, end = lines[-2:]
        assert isinstance(group, GroupLine)
        assert isinstance(end, EndLine)
        assert (group.kept, group.reason, group.unmeasured) == (0, "too_few_measured", {"no_group_rewards": 3})
        assert why in (group.no_group_rewards or "")
        assert (end.mean_reward, end.trainable_tokens) == (1.0, 0), "the environment's own score is what it was"


async def test_an_environment_without_them_is_as_before(tmp_path: Path) -> None:
    async with trainer_gym(tmp_path) as gym:
        longer_each_time(gym)
        assert [line.reward for line in rollouts(await lines_of(gym))] == [1.0] * 3
