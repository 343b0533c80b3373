"""The prepared dataset: BabyVision's fields, gold outside the prompt, ids that filters do not move."""

import json
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from benchmarks.visual_puzzles_opencode.prepare import FIRST_TASK_ID, PrepareConfig, prepare, puzzle_tasks
from benchmarks.visual_puzzles_opencode.puzzles.registry import SUBTYPES
from gym_core.datasets.prepared import read_dataset

CONFIG = Path(__file__).parents[3] / "benchmarks" / "visual_puzzles_opencode" / "config.yaml"


def test_one_puzzle_of_each_subtype_and_level_can_be_read_back(tmp_path: Path) -> None:
    path = prepare(PrepareConfig(jsonl_fpath=tmp_path / "puzzles.jsonl"))
    tasks = list(read_dataset(path))
    assert len(tasks) == len(SUBTYPES) * 3
    assert {task.task_data["l2_category"] for task in tasks} == set(SUBTYPES)
    assert len({task.id.task_id for task in tasks}) == len(tasks)
    assert len(list((tmp_path / "puzzles_assets").iterdir())) == len(tasks)


def test_the_policy_is_shown_neither_gold_nor_origin(tmp_path: Path) -> None:
    path = prepare(PrepareConfig(jsonl_fpath=tmp_path / "puzzles.jsonl", subtypes=("Find the different",)))
    for task in read_dataset(path):
        shown = task.responses_create_params.model_dump_json()
        assert task.task_data["expected_answer"] not in shown
        assert not any(word in shown for word in ("roi", "puzzle_seed", "level", "expected_answer"))


def test_the_same_config_writes_the_same_rows(tmp_path: Path) -> None:
    few = {"subtypes": ("Maze", "Count Clusters"), "levels": (2,), "per_level": 2}
    first, second = (
        prepare(PrepareConfig.model_validate(few | {"jsonl_fpath": tmp_path / name / "x.jsonl"})) for name in "ab"
    )
    assert first.read_bytes() == second.read_bytes()


def test_another_seed_draws_other_puzzles() -> None:
    few = PrepareConfig(levels=(1,), per_level=2)
    other = few.model_copy(update={"seed": 1})
    pictures = [task.puzzle.image.tobytes() for config in (few, other) for task in puzzle_tasks(config)]
    assert len(set(pictures)) == len(pictures)


def test_filters_leave_ids_where_they_are() -> None:
    everything = {
        (task.subtype, task.level, task.seed): task.task_id for task in puzzle_tasks(PrepareConfig(per_level=2))
    }
    assert sorted(everything.values()) == list(range(FIRST_TASK_ID, FIRST_TASK_ID + len(everything)))
    for task in puzzle_tasks(PrepareConfig(per_level=2, subtypes=("Count Clusters", "Maze"), levels=(3, 1))):
        assert everything[task.subtype, task.level, task.seed] == task.task_id


def test_a_misspelt_subtype_is_named_with_the_nearest_one() -> None:
    with pytest.raises(ValidationError, match="'Mazes'; nearest is 'Maze'"):
        PrepareConfig(subtypes=("Mazes",))


@pytest.mark.parametrize("mistake", [{"levels": [4]}, {"per_level": 0}, {"seed": -1}, {"sed": 1}])
def test_mistakes_in_the_arguments_are_refused(mistake: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PrepareConfig.model_validate(mistake)


def test_the_benchmarks_config_prepares_the_file_it_runs() -> None:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    [dataset] = config["visual_puzzles_opencode"]["environment_servers"]["single_agent_turn_legacy"]["datasets"]
    assert PrepareConfig(**json.loads(json.dumps(dataset["prepare_args"]))).jsonl_fpath == Path(dataset["jsonl_fpath"])
