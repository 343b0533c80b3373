"""The prepared dataset: BabyVision's fields, gold outside the prompt, ids that filters do not move."""

from pathlib import Path

import pytest
import yaml

from benchmarks.visual_puzzles_opencode.prepare import FIRST_TASK_ID, PrepareArgs, prepare, puzzle_tasks
from benchmarks.visual_puzzles_opencode.puzzles.registry import SUBTYPES
from gym_core.datasets.prepared import read_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject

CONFIG = Path(__file__).parents[3] / "benchmarks" / "visual_puzzles_opencode" / "config.yaml"


def test_one_puzzle_of_each_subtype_and_level_can_be_read_back(tmp_path: Path) -> None:
    path = prepare({}, tmp_path / "puzzles.jsonl")
    tasks = list(read_dataset(path))
    assert len(tasks) == len(SUBTYPES) * 3
    assert {task.task_data["l2_category"] for task in tasks} == set(SUBTYPES)
    assert len({task.id.task_id for task in tasks}) == len(tasks)
    assert len(list((tmp_path / "puzzles_assets").iterdir())) == len(tasks)


def test_the_policy_is_shown_neither_gold_nor_origin(tmp_path: Path) -> None:
    path = prepare({"subtypes": ["Find the different"]}, tmp_path / "puzzles.jsonl")
    for task in read_dataset(path):
        shown = task.responses_create_params.model_dump_json()
        assert task.task_data["expected_answer"] not in shown
        assert not any(word in shown for word in ("roi", "puzzle_seed", "level", "expected_answer"))


def test_the_same_config_writes_the_same_rows(tmp_path: Path) -> None:
    few = {"subtypes": ["Maze", "Count Clusters"], "levels": [2], "per_level": 2}
    first, second = (prepare(few, tmp_path / name / "x.jsonl") for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_another_seed_draws_other_puzzles() -> None:
    few = PrepareArgs(levels=(1,), per_level=2)
    other = few.model_copy(update={"seed": 1})
    pictures = [task.puzzle.image.tobytes() for args in (few, other) for task in puzzle_tasks(args)]
    assert len(set(pictures)) == len(pictures)


def test_filters_leave_ids_where_they_are() -> None:
    everything = {
        (task.subtype, task.level, task.seed): task.task_id for task in puzzle_tasks(PrepareArgs(per_level=2))
    }
    assert sorted(everything.values()) == list(range(FIRST_TASK_ID, FIRST_TASK_ID + len(everything)))
    for task in puzzle_tasks(PrepareArgs(per_level=2, subtypes=("Count Clusters", "Maze"), levels=(3, 1))):
        assert everything[task.subtype, task.level, task.seed] == task.task_id


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"subtypes": ["Mazes"]}, r"prepare_args.subtypes.*'Mazes'.*Maze\b"),
        ({"levels": [4]}, "prepare_args.levels"),
        ({"per_level": 0}, "prepare_args.per_level"),
        ({"seed": -1}, "prepare_args.seed"),
        ({"sed": 1}, "prepare_args.sed"),
    ],
)
def test_mistakes_in_the_arguments_are_named(mistake: JsonObject, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(mistake, tmp_path / "puzzles.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_the_benchmarks_config_asks_for_a_puzzle_of_each_kind_and_grades_without_a_judge_model() -> None:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    [dataset] = config["visual_puzzles_opencode"]["environment_servers"]["single_agent_turn_legacy"]["datasets"]
    assert PrepareArgs.model_validate(dataset["prepare_args"]) == PrepareArgs()
    grader = config["visual_coding_opencode"]["resources_servers"]["visual_coding_opencode"]
    assert grader == {"judge": "matcher", "judge_model_server": None}
