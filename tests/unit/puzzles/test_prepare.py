"""The prepared dataset: BabyVision's fields, gold outside the prompt, ids that filters do not move."""

import random
from collections import Counter
from pathlib import Path

import pytest
import yaml
from PIL import Image

from benchmarks.visual_puzzles_opencode.prepare import prepare
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.registry import BABYVISION_ROWS, DEMO_SUBTYPES, SUBTYPES
from benchmarks.visual_puzzles_opencode.selection import (
    FIRST_LATER_ID,
    FIRST_TASK_ID,
    PrepareArgs,
    Proportions,
    puzzle_tasks,
)
from gym_core.datasets.prepared import read_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject


class BlankSubtype:
    """A subtype that takes no time to draw."""

    SUBTYPE = "Blank"
    CATEGORY = "Fine-grained Discrimination"

    def generate(self, rng: random.Random, level: int) -> Puzzle:
        image = Image.new("RGB", (8, 8), (level, 0, rng.randrange(256)))
        return Puzzle(image=image, question="Is it?", answer="1", answer_kind=AnswerKind.INT)

    def solve(self, puzzle: Puzzle) -> str:
        return puzzle.answer


BLANK = BlankSubtype()
CONFIG = Path(__file__).parents[3] / "benchmarks" / "visual_puzzles_opencode" / "config.yaml"


def test_one_puzzle_of_each_level_of_the_demos_subtypes_can_be_read_back(tmp_path: Path) -> None:
    path = prepare({}, tmp_path / "puzzles.jsonl")
    tasks = list(read_dataset(path))
    assert len(tasks) == 24
    assert {task.task_data["l2_category"] for task in tasks} == set(DEMO_SUBTYPES)
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


def test_ids_are_those_of_the_subtype_whatever_is_chosen_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for subtype in SUBTYPES:
        monkeypatch.setitem(SUBTYPES, subtype, BLANK)
    later = [name for name in SUBTYPES if name not in DEMO_SUBTYPES]
    args = PrepareArgs(proportions=Proportions.EVEN, per_level=2)
    ids = {(task.subtype, task.level, task.seed): task.task_id for task in puzzle_tasks(args)}
    assert len(set(ids.values())) == len(ids) == len(SUBTYPES) * 6
    assert ids["Mirroring Patterns", 3, 1] == FIRST_TASK_ID + 47
    for subtype in later:
        assert ids[subtype, 1, 0] == FIRST_LATER_ID + 3 * (list(BABYVISION_ROWS).index(subtype) - 8)
        assert ids[subtype, 1, 1] == ids[subtype, 1, 0] + 42
    for proportions in (Proportions.BABYVISION, Proportions.MINI):
        for task in puzzle_tasks(PrepareArgs(proportions=proportions)):
            assert ids.get((task.subtype, task.level, task.seed), task.task_id) == task.task_id


def test_babyvisions_proportions_give_its_rows_with_the_levels_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for subtype in SUBTYPES:
        monkeypatch.setitem(SUBTYPES, subtype, BLANK)
    tasks = list(puzzle_tasks(PrepareArgs(proportions=Proportions.BABYVISION)))
    assert Counter(task.subtype for task in tasks) == {name: BABYVISION_ROWS[name] for name in SUBTYPES}
    assert len({task.task_id for task in tasks}) == len(tasks)
    for subtype in SUBTYPES:
        levels = Counter(task.level for task in tasks if task.subtype == subtype)
        assert max(levels.values()) - min(levels.values()) <= 1
    assert sum(BABYVISION_ROWS.values()) == 388
    assert len(BABYVISION_ROWS) == 22


@pytest.mark.parametrize("levels", [(1, 2, 3), (2,)])
def test_the_mini_set_has_two_of_each_subtype(levels: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for subtype in SUBTYPES:
        monkeypatch.setitem(SUBTYPES, subtype, BLANK)
    tasks = list(puzzle_tasks(PrepareArgs(proportions=Proportions.MINI, levels=levels)))
    assert Counter(task.subtype for task in tasks) == dict.fromkeys(SUBTYPES, 2)
    assert {task.level for task in tasks} == {levels[0], levels[-1]}
    assert len({task.task_id for task in tasks}) == len(tasks)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"subtypes": ["Mazes"]}, r"prepare_args.subtypes.*'Mazes'.*Maze\b"),
        ({"levels": [4]}, "prepare_args.levels"),
        ({"levels": []}, "prepare_args.levels"),
        ({"proportions": "mine"}, "prepare_args.proportions"),
        ({"proportions": "mini", "per_level": 2}, "per_level does not go with proportions 'mini'"),
        ({"per_level": 0}, "prepare_args.per_level"),
        ({"seed": -1}, "prepare_args.seed"),
        ({"sed": 1}, "prepare_args.sed"),
    ],
)
def test_mistakes_in_the_arguments_are_named(mistake: JsonObject, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(mistake, tmp_path / "puzzles.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_the_benchmarks_config_asks_for_the_demos_puzzles_and_grades_without_a_judge_model() -> None:
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    [dataset] = config["visual_puzzles_opencode"]["environment_servers"]["single_agent_turn_legacy"]["datasets"]
    assert PrepareArgs.model_validate(dataset["prepare_args"]) == PrepareArgs()
    grader = config["visual_coding_opencode"]["resources_servers"]["visual_coding_opencode"]
    assert grader == {"judge": "matcher", "judge_model_server": None}
