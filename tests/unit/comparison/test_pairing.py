"""Which task is which: by content, by row where the request differs, and never where question or key do."""

from dataclasses import replace
from pathlib import Path

import pytest

from gym_core.comparison.compare import compare_runs
from gym_core.comparison.pairing import pair_tasks, shared_names
from gym_core.comparison.scored_run import ScoredRun, print_of, read_scored_run
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.visual_question import VisualQuestion, to_task_row
from gym_core.errors import ConfigError, FailureKind
from gym_core.types.flat_row import task_from_flat
from tests.fakes.made_run import MadeRollout, MadeRun, MadeTask
from tests.fakes.made_runs import made_picture


def task(number: int, *, question: str = "", gold: str = "1", **more: object) -> MadeTask:
    """Without a picture, and with a prompt that may differ while the question stays."""
    fields = {"question": f"question {number}", **more}
    return MadeTask(question or f"prompt {number}", gold, task_id=str(number), fields=fields)


def tried(made: MadeTask, *rewards: float | None) -> list[MadeRollout]:
    return [
        MadeRollout(
            made,
            index=int(made.task_id),
            repeat=repeat,
            answer="1",
            reward=reward or 0.0,
            failure=FailureKind.SANDBOX_LOST if reward is None else None,
        )
        for repeat, reward in enumerate(rewards)
    ]


def scored(
    folder: Path, name: str, *rollouts: list[MadeRollout], planned: list[MadeRollout] | None = None
) -> ScoredRun:
    run = MadeRun(folder, name)
    written = [each for some in rollouts for each in some]
    run.plan([*written, *(planned or [])])
    run.write(written)
    return read_scored_run(run.path)


def test_tasks_of_one_content_are_pairs_whatever_their_order(tmp_path: Path) -> None:
    a = scored(tmp_path, "a", tried(task(1), 1.0), tried(task(2), 0.0))
    b = scored(tmp_path, "b", tried(task(2), 1.0), tried(task(1), 1.0))
    counts = pair_tasks(a, b).counts()
    assert (counts.paired, counts.by_content, counts.by_row_id, counts.measured) == (2, 2, 0, 2)
    assert compare_runs(a, b).overall.difference == 0.5


def test_another_prompt_pairs_by_row_and_is_told(tmp_path: Path) -> None:
    a = scored(tmp_path, "a", tried(task(1), 1.0), tried(task(2), 0.0))
    b = scored(tmp_path, "b", tried(task(1, question="Look first. prompt 1"), 0.0), tried(task(2), 0.0))
    counts = pair_tasks(a, b).counts()
    assert (counts.paired, counts.by_content, counts.by_row_id) == (2, 1, 1)
    assert [d.what for d in compare_runs(a, b).setup] == ["1 of 2 paired tasks are asked in other words"]


def test_both_babyvision_benchmarks_pair_by_row_and_differ_in_the_prompt_alone() -> None:
    question = VisualQuestion(
        source_id="7",
        taskset="babyvision",
        category="Visual Tracking",
        subtype="Maze",
        image=PreparedImage.from_bytes(made_picture(1), row="7"),
        question="How many turns?",
        ans_type="blank",
        gold="3",
    )
    asked, bare = (
        task_from_flat(to_task_row(question, instruction=text), taskset="", index=0) for text in ("Look first.", None)
    )
    with_instruction, without = print_of(asked), print_of(bare)
    assert asked.id == bare.id
    assert with_instruction.agrees_on_key(without)
    assert with_instruction.prompt != without.prompt
    assert (with_instruction.pictures, with_instruction.settings) == (without.pictures, without.settings)


def test_a_column_that_only_one_dataset_has_does_not_part_a_row(tmp_path: Path) -> None:
    a = scored(tmp_path, "a", tried(task(1), 1.0))
    b = scored(tmp_path, "b", tried(task(1, answer_kind="int"), 1.0))
    assert pair_tasks(a, b).counts().by_row_id == 1


def test_another_picture_of_the_same_row_is_other_data(tmp_path: Path) -> None:
    a = scored(tmp_path, "a", tried(replace(task(1), picture=made_picture(1)), 1.0))
    b = scored(tmp_path, "b", tried(replace(task(1), picture=made_picture(2)), 1.0))
    (difference,) = compare_runs(a, b).setup
    assert (difference.topic, difference.is_warning) == ("data", True)
    assert "show other bytes" in difference.what


@pytest.mark.parametrize("other", [task(1, gold="2"), replace(task(1), fields={"question": "what else?"})])
def test_another_question_or_key_is_another_task(other: MadeTask, tmp_path: Path) -> None:
    a = scored(tmp_path, "a", tried(task(1), 1.0), tried(task(2), 1.0))
    b = scored(tmp_path, "b", tried(other, 1.0), tried(task(2), 1.0))
    counts = pair_tasks(a, b).counts()
    assert (counts.paired, counts.changed, counts.only_in_a, counts.only_in_b) == (1, 1, 1, 1)


def test_an_id_that_names_two_tasks_pairs_neither(tmp_path: Path) -> None:
    twins = [tried(task(1, question="first"), 1.0), tried(task(1, question="second"), 1.0)]
    a = scored(tmp_path, "a", *twins, tried(task(2), 1.0))
    b = scored(tmp_path, "b", tried(task(1, question="third"), 1.0), tried(task(2), 1.0))
    counts = pair_tasks(a, b).counts()
    assert (counts.paired, counts.only_in_a, counts.only_in_b) == (1, 2, 1)


def test_what_is_masked_or_missing_on_either_side_is_in_no_difference_and_counted(tmp_path: Path) -> None:
    a = scored(tmp_path, "a", tried(task(1), 1.0, 0.0), tried(task(2), None, None), tried(task(3), 1.0, 1.0))
    b = scored(
        tmp_path, "b", tried(task(1), 1.0), tried(task(2), 1.0, 1.0), tried(task(4), 1.0),
        planned=[*tried(task(1), 0.0, 0.0)[1:], *tried(task(3), 0.0, 0.0)],
    )  # fmt: skip
    comparison = compare_runs(a, b)
    counts = comparison.pairing
    assert (counts.paired, counts.measured, counts.only_in_b, counts.uneven) == (3, 1, 1, 1)
    assert (counts.unmeasured_in_a, counts.masked_rollouts_a, counts.missing_rollouts_a) == (1, 2, 0)
    assert (counts.unmeasured_in_b, counts.masked_rollouts_b, counts.missing_rollouts_b) == (1, 0, 3)
    assert (comparison.overall.tasks, comparison.overall.difference) == (1, 0.5)
    assert (comparison.a.reward.masked, comparison.a.reward.unmeasured_tasks) == (2, 1)


def test_a_task_flips_when_most_of_its_repeats_do(tmp_path: Path) -> None:
    a = scored(tmp_path, "a", tried(task(1), 1.0, 0.0, 0.0), tried(task(2), 1.0, 1.0, 0.0), tried(task(3), 1.0, 0.0))
    b = scored(tmp_path, "b", tried(task(1), 0.0, 1.0, 1.0), tried(task(2), 0.0, None, 0.0), tried(task(3), 0.0, 0.0))
    flipped = compare_runs(a, b).flipped
    assert [(f.task, f.direction, f.a.right, f.a.measured, f.b.right, f.b.measured) for f in flipped] == [
        ("made/2", "lost", 2, 3, 0, 2),
        ("made/1", "gained", 1, 3, 2, 3),
    ]
    gained = flipped[1]
    assert (gained.a.rollout_id.split("-")[1], gained.b.rollout_id.split("-")[1]) == ("r1", "r1")


def test_runs_without_a_common_task_are_refused_with_an_example_of_each(tmp_path: Path) -> None:
    a, b = scored(tmp_path, "a", tried(task(1), 1.0)), scored(tmp_path, "b", tried(task(2), 1.0))
    with pytest.raises(ConfigError, match="share no task.*'made/1'.*'made/2'"):
        compare_runs(a, b)
    changed = scored(tmp_path, "c", tried(task(1, gold="7"), 1.0))
    with pytest.raises(ConfigError, match="1 rows have the same id, but another question or answer key"):
        compare_runs(a, changed)


def test_a_row_that_three_runs_ask_in_other_words_has_one_name_and_two_tasks_of_a_run_never_do(tmp_path: Path) -> None:
    asked = [task(1, question=words) for words in ("first", "second", "third")]
    a, b, c = (scored(tmp_path, name, tried(made, 1.0)) for name, made in zip("abc", asked, strict=True))
    ((name,), (of_b,), (of_c,)) = (names.values() for names in shared_names([a, b, c]))
    assert (name, of_b, of_c) == (next(iter(a.tasks)),) * 3
    both = scored(tmp_path, "both", tried(asked[0], 1.0), tried(asked[1], 1.0))
    assert len(set(shared_names([a, b, both])[2].values())) == 2
