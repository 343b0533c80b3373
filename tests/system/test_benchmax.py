"""Classes written for benchmax by the documented commands, through real services: one with pictures, one with text."""

import asyncio
import json
import shutil

import pytest

from gym_core.client import GymClient
from gym_core.config.roots import INSTALL_DIR
from gym_core.types.trainer import EndLine, RolloutLine, RolloutsRequest
from gym_core.types.wire import JsonObject
from tests.system.house import House
from tests.system.test_launch import announced, standing

pytestmark = [pytest.mark.live, pytest.mark.slow]

TASKS = 8
OWN_CLASS = """
from benchmax.envs.base import BaseEnv, BaseRollout, JsonRow
from benchmax.envs.dataset import Dataset
from benchmax.envs.shared_types import Example
from my_words import WORDS


class SpellEnv(BaseEnv):
    def __init__(self, *, fails: bool = False) -> None:
        super().__init__(max_turns=1, max_tool_calls=0)
        self._fails = fails

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        ask = [{"role": "user", "content": "The ledger says what people owe. Nobody is asked about."}]
        return Dataset([Example(word, {"prompt_messages": ask, "word": word}) for word in WORDS])

    async def compute_reward(self, rollout):
        if self._fails:
            raise KeyError("no such word")
        return {"long": float(len(rollout.example_args["word"]) > 3)}


class RankedSpellEnv(SpellEnv):
    async def compute_group_rewards(self, rollouts):
        return {rollout.rollout_id: {"later": 0.5 * n} for n, rollout in enumerate(rollouts)}
"""
OWN_CONFIG = """
config_paths: [resources_servers/benchmax/configs/benchmax_agent.yaml]
spell:
  resources_servers:
    benchmax:
      environment: {class_path: "my_spelling:SpellEnv", import_paths: [my_classes]}
spell_benchmark:
  environment_servers:
    single_agent_turn_legacy:
      resources_server: {type: resources_servers, name: spell}
      agent_server: {type: agent_servers, name: benchmax_agent}
      datasets:
        - name: spell
          type: benchmark
          jsonl_fpath: benchmarks/spell/data/spell.jsonl
          prepare_script: resources_servers/benchmax/prepare.py
          prepare_args: {environment: "${spell.resources_servers.benchmax.environment}"}
"""


async def play(house: House, name: str, *words: str) -> list[JsonObject]:
    source, target = INSTALL_DIR / "benchmarks" / name, house.cwd / "benchmarks" / name
    if source.is_dir():  # so that the data are written there
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("data", "__pycache__"))
    output = house.folder / "out" / "x.jsonl"
    prepared = await house.run("eval", "prepare", "--benchmark", name)
    assert prepared.code == 0, prepared.err
    ended = await house.run(
        "eval", "run", "--benchmark", name, "--model-type", "scripted_model", "--limit", str(TASKS),
        "--output", str(output), *words,
    )  # fmt: skip
    assert ended.code == 0, ended.out + ended.err
    await house.all_gone()
    return [json.loads(line) for line in output.read_text().splitlines()]


async def test_a_class_with_pictures_is_played_and_every_picture_is_kept(house: House) -> None:
    rows = await play(house, "benchmax_dot_memory")
    assets = {path.name for path in (house.folder / "out" / "x_assets").iterdir()}
    assert len(rows) == TASKS
    for row in rows:
        assert (row["reward"], row["reward_components"]) == (1.0, {"correctness": 1.0})
        assert (row["rewards"], row["termination_reason"]) == ({"correctness": 1.0, "in_place": 1.0}, "finished")
        assert row["_gym_agent"]["tool_calls"] == {"see_next_picture": 2}
        outputs = [item["output"] for item in row["response"]["output"] if item["type"] == "function_call_output"]
        pictures = [part["image_url"] for output in outputs for part in output if part["type"] == "input_image"]
        assert len(pictures) == 2
        assert {url.removeprefix("sha256:") for url in pictures} <= assets
        assert len(row["_gym_capture"]["images"]) == 3


async def test_a_policy_that_does_not_look_earns_nothing(house: House) -> None:
    rows = await play(house, "benchmax_dot_memory", "++policy_model.model_servers.scripted_model.looks=false")
    assert [row["reward"] for row in rows] == [0.0] * TASKS


async def test_the_classs_limits_are_the_rollouts_and_the_class_grades_what_a_limit_ended(house: House) -> None:
    one_turn = "++benchmax.resources_servers.benchmax.environment.arguments.max_turns=1"
    rows = await play(house, "benchmax_dot_memory", one_turn, "++benchmax.resources_servers.benchmax.reward=in_place")
    for row in rows:
        assert (row["reward"], row["failure_kind"], row["mask_sample"]) == (0.0, "no_final_answer", False)
        assert (row["termination_reason"], row["_gym_agent"]["ending"]) == ("max_turns_exceeded", "max_turns")
        assert row["rewards"] == {"correctness": 0.0, "in_place": 0.0}


async def test_a_class_of_text_is_played(house: House) -> None:
    rows = await play(house, "benchmax_ledger")
    assert len(rows) == TASKS
    for row in rows:
        assert (row["reward"], row["reward_components"]) == (1.0, {"correctness": 0.8, "frugality": 0.2})
        assert row["_gym_agent"]["tool_calls"] == {"look_up": len(row["payload"]["asked"])}


async def test_a_class_of_ones_own_needs_a_config_and_nothing_else(house: House) -> None:
    classes, benchmark = house.cwd / "my_classes", house.cwd / "benchmarks" / "spell"
    for folder in (classes, benchmark):
        folder.mkdir(parents=True)
    (classes / "my_spelling.py").write_text(OWN_CLASS)
    (classes / "my_words.py").write_text("WORDS = ['ant', 'bear', 'camel']\n")
    (benchmark / "config.yaml").write_text(OWN_CONFIG)
    rows = await play(house, "spell")
    assert {row["task_id"]["task_id"]: row["reward"] for row in rows} == {"ant": 0.0, "bear": 1.0, "camel": 1.0}


async def test_a_trainers_groups_have_the_classs_group_rewards(house: House) -> None:
    await test_a_class_of_ones_own_needs_a_config_and_nothing_else(house)
    words = (
        "--benchmark", "spell", "--model-type", "scripted_model",
        "++spell.resources_servers.benchmax.environment.class_path=my_spelling:RankedSpellEnv",
        "++spell.resources_servers.benchmax.group_rewards=in_groups",
    )  # fmt: skip
    asked = {"split": "benchmark", "num_repeats": 2, "samples": False, "group": {}}
    async with (
        asyncio.timeout(60),
        standing(house, *words) as gym,
        GymClient(*announced(house.said("out", gym.command.number).read_text())) as client,
    ):
        lines = [line async for line in client.rollouts(RolloutsRequest.model_validate(asked))]
    found = [line for line in lines if isinstance(line, RolloutLine)]
    rewards = {(line.task_index, line.repeat): line.reward for line in found}
    assert rewards == {(0, 0): 0.0, (0, 1): 0.5, (1, 0): 1.0, (1, 1): 1.5, (2, 0): 1.0, (2, 1): 1.5}
    assert {line.advantage for line in found} == {-0.25, 0.25}
    end = lines[-1]
    assert isinstance(end, EndLine)
    assert end.mean_reward == pytest.approx(2 / 3)


async def test_a_class_whose_reward_raises_masks_its_rows(house: House) -> None:
    await test_a_class_of_ones_own_needs_a_config_and_nothing_else(house)
    output = house.folder / "out" / "y.jsonl"
    ended = await house.run(
        "eval", "run", "--benchmark", "spell", "--model-type", "scripted_model", "--output", str(output),
        "++spell.resources_servers.benchmax.environment.arguments.fails=true",
    )  # fmt: skip
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["reward"], row["failure_kind"]) for row in rows] == [(None, "verifier_error")] * 3, ended.err
    assert all("compute_reward: KeyError: 'no such word'" in row["failure_reason"] for row in rows)


async def test_a_class_that_cannot_be_imported_ends_the_run_in_a_sentence(house: House) -> None:
    await play(house, "benchmax_ledger")
    ended = await house.run(
        "eval", "run", "--benchmark", "benchmax_ledger", "--model-type", "scripted_model",
        "--output", str(house.folder / "out" / "z.jsonl"),
        "++benchmax_ledger.resources_servers.benchmax.environment.class_path=ledger_env:NoSuch",
    )  # fmt: skip
    assert ended.code != 0
    assert "ledger_env:NoSuch" in ended.err
    await house.all_gone()
