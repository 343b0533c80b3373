"""`gym eval compare` and `gym eval summary` on saved runs, whole, uneven, broken and hostile."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gym_core.cli.main import main
from gym_core.cli.saved_summary import table_lines
from gym_core.types.comparison import Comparison
from gym_core.types.summary import Summary
from gym_core.viewer.run import run_id
from tests.fakes.hostile_run import SEEN, hidden_in, write_hostile_run
from tests.fakes.made_run import MadeRollout, MadeRun, MadeTask
from tests.fakes.made_runs import made_rollout, write_pair, write_small_run, write_uneven_run

Captured = pytest.CaptureFixture[str]


def compared(capsys: Captured, *words: object, code: int = 0) -> str:
    assert main(["eval", "compare", *map(str, words)]) == code
    return capsys.readouterr().out


def summarized(capsys: Captured, *words: object, code: int = 0) -> str:
    assert main(["eval", "summary", *map(str, words)]) == code
    return capsys.readouterr().out


def refused(capsys: Captured, *words: object) -> str:
    assert main(["eval", *map(str, words)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "Traceback" not in told.err
    return told.err


def test_a_comparison_says_the_difference_its_test_what_differs_and_what_flipped(
    tmp_path: Path, capsys: Captured
) -> None:
    first, second = write_pair(tmp_path)
    text = compared(capsys, first.path, second.path)
    assert "difference  +0.1053  [-0.1159, +0.3264]  (mean A 0.6842, mean B 0.7895 over 19 tasks)" in text
    assert "p           0.625  (exact McNemar test; B better at 3 tasks, worse at 1)" in text
    assert "pairs       19 tasks: 19 by content" in text
    assert "left out    1 task only in A" in text
    assert "warning  servers  judge.model: a-judge -> another-judge" in text
    assert "flipped: 1 lost, 3 gained" in text
    (lost,) = [line.split() for line in text.splitlines() if line.startswith("  lost")]
    assert lost[1] == "made/1000"
    assert [word for word in lost if word.startswith("t0-r0-")] == [lost[-1]] * 2
    assert text.count("t2-r0-") == 2
    assert f"to see them: gym view {first.path} {second.path}" in text
    for letter, run in (("A", first), ("B", second)):
        assert f"rollouts of {letter} are at #/run/{run_id(run.path)}/rollout/..." in text


def test_for_programs_a_comparison_is_json_with_all_that_flipped(tmp_path: Path, capsys: Captured) -> None:
    first, second = write_pair(tmp_path)
    comparison = Comparison.model_validate_json(compared(capsys, first.path, second.path, "--json", "--flips", 1))
    assert [flip.direction for flip in comparison.flipped] == ["lost", "gained", "gained", "gained"]
    lost = comparison.flipped[0].a
    assert lost.answer == "1"
    assert lost.address == f"#/run/{run_id(first.path)}/rollout/{lost.rollout_id}"
    assert (comparison.a.path, comparison.b.reward.tasks) == (str(first.path), 19)


def test_flips_past_the_number_asked_for_are_counted(tmp_path: Path, capsys: Captured) -> None:
    first, second = write_pair(tmp_path)
    text = compared(capsys, first.path, second.path, "--flips", 1)
    assert "and 3 more: --flips 4, or --json" in text
    assert "gained  made/" not in text


def test_repeats_masked_rows_and_missing_ones_are_said_on_their_side(tmp_path: Path, capsys: Captured) -> None:
    once, uneven = write_small_run(tmp_path), write_uneven_run(tmp_path)
    text = compared(capsys, once.path, uneven.path)
    assert "permutation test, all sign flips" in text
    assert "left out        2 tasks without a measured rollout in B" in text
    assert "of pairs, in B  5 masked, 6 missing rollouts" in text
    assert "(6 tasks, 13 rollouts; 5 masked, 6 missing, 2 tasks not measured)" in text


def test_pairs_of_which_none_is_measured_on_both_sides_end_with_1(tmp_path: Path, capsys: Captured) -> None:
    masked = MadeRun(tmp_path, "masked")
    uneven = write_uneven_run(tmp_path)
    rollouts = [made_rollout(3)]
    masked.plan(rollouts)
    masked.write(rollouts)
    text = compared(capsys, masked.path, uneven.path, code=1)
    assert "not measured: no task was measured in both runs" in text
    assert "no task flipped" in text


def test_a_summary_of_a_saved_run_is_that_of_its_end_with_what_is_masked_beside_each_mean(
    tmp_path: Path, capsys: Captured
) -> None:
    text = summarized(capsys, write_uneven_run(tmp_path).path)
    assert "18 of 24 finished: 13 measured, 5 masked; 6 missing, 1 task masked throughout" in text
    assert "pass@2  0.9167  [0.6515, 1.0000]  4 tasks" in text
    assert "pass 2  0.6000  5 measured  1 masked, 2 missing" in text
    (line,) = [line for line in text.splitlines() if "Visual Tracking/Connect the lines" in line]
    assert line.split("Connect the lines")[1].split() == [
        "not", "measured", "0", "tasks", "3", "masked,", "1", "task", "not", "measured",
    ]  # fmt: skip


def test_for_programs_a_summary_is_json(tmp_path: Path, capsys: Captured) -> None:
    run = write_uneven_run(tmp_path)
    text = summarized(capsys, run.path, "--json", "--table", "babyvision", "--baseline", run.path)
    summary = Summary.model_validate_json(text)
    assert summary.runs[0].metrics.reward.masked == 5
    assert summary.table is not None
    assert [c.name for c in summary.table.columns] == [str(run.path)] * 2
    assert summary.against_baseline[0].overall.difference == 0.0


def test_the_papers_table_has_a_row_for_each_subtype_and_a_column_for_each_run(
    tmp_path: Path, capsys: Captured
) -> None:
    once, uneven = write_small_run(tmp_path), write_uneven_run(tmp_path)
    lines = summarized(capsys, once.path, uneven.path, "--table", "babyvision").splitlines()
    assert lines[1].split() == ["tasks", "small", "uneven"]
    assert lines[2].split()[:5] == ["Overall", "12", "of", "388", "66.7"]
    assert lines[3].startswith("  Fine-grained Discrimination ")
    assert lines[4].startswith("    Find the different  ")
    assert sum(line.startswith("    ") for line in lines[2:]) == 22
    assert "small: 12 tasks, the benchmark has 388: not comparable with published figures" in lines
    assert "uneven: 8 tasks, the benchmark has 388: not comparable with published figures" in lines
    assert any(line.startswith("small: one pass, so no deviation") for line in lines)
    assert "uneven: 3 unfinished passes used, for none is finished" in lines


def test_the_table_counts_a_task_once_that_runs_ask_in_other_words(tmp_path: Path, capsys: Captured) -> None:
    runs = [MadeRun(tmp_path, name) for name in ("opencode", "pyvision")]
    for run, words in zip(runs, ("What is it?", "Use image_clue_0. What is it?"), strict=True):
        task = MadeTask(words, "1", fields={"question": "What is it?"})
        run.write([MadeRollout(task, answer="1", reward=1.0)])
    lines = summarized(capsys, *(run.path for run in runs), "--table", "babyvision").splitlines()
    assert lines[2].split()[:4] == ["Overall", "1", "of", "388"]


def test_the_difference_with_and_without_tools_is_on_the_same_rows_by_type(tmp_path: Path, capsys: Captured) -> None:
    without, with_tools = write_pair(tmp_path)
    text = summarized(capsys, with_tools.path, "--baseline", without.path)
    head, _, rest = text.partition("on the same tasks\n")
    assert head.splitlines()[-1].startswith(f"{with_tools.path} (B) less {without.path} (A)")
    assert "difference  +0.1053" in rest
    assert "Visual Tracking/Maze" in rest
    assert "A 0.0000, B 0.6667  3 tasks" in rest


def test_the_end_of_a_run_has_its_table_or_why_there_is_none(tmp_path: Path) -> None:
    run = write_small_run(tmp_path)
    assert table_lines(run.path, "babyvision")[0].startswith("babyvision: mean over passes")
    assert table_lines(tmp_path / "no.jsonl", "babyvision") == [
        f"no table: {tmp_path}/no.jsonl: no such file; give a run's output file (the path of its --output)"
    ]


@pytest.mark.parametrize("command", ["compare", "summary"])
def test_a_hostile_run_is_text(command: str, tmp_path: Path, capsys: Captured) -> None:
    run = write_hostile_run(tmp_path, huge_line_bytes=100_000).run
    other = write_small_run(tmp_path / "other")
    twice = [run.path, run.path] if command == "compare" else [run.path, "--baseline", run.path]
    assert main(["eval", command, *map(str, twice)]) == 0
    assert main(["eval", "summary", "--table", "babyvision", str(run.path)]) == 0
    assert main(["eval", "compare", str(run.path), str(other.path)]) == 2
    told = capsys.readouterr()
    assert SEEN in told.out
    assert hidden_in(told.out + told.err) == set()
    assert max(map(len, told.out.splitlines())) < 1000


def torn(run: MadeRun) -> None:
    run.tear(made_rollout(11))


def without_manifest(run: MadeRun) -> None:
    run.files.manifest.unlink()


@pytest.mark.parametrize(
    ("breaking", "said"),
    [(torn, "the last line is cut off"), (without_manifest, "no X_run.json beside it")],
)
def test_a_run_that_lacks_something_is_compared_and_says_so(
    breaking: object, said: str, tmp_path: Path, capsys: Captured
) -> None:
    run, other = write_small_run(tmp_path), write_small_run(tmp_path, "other")
    breaking(run)  # type: ignore[operator]
    assert said in compared(capsys, run.path, other.path)
    assert main(["eval", "summary", str(run.path)]) == 0
    told = capsys.readouterr()
    assert ("the last line is cut off" in told.err) == (breaking is torn)
    assert ("model not known" in told.out) == (breaking is without_manifest)


def test_without_its_inputs_it_is_not_known_what_of_a_run_is_missing(tmp_path: Path, capsys: Captured) -> None:
    run, other = write_uneven_run(tmp_path), write_small_run(tmp_path)
    run.files.inputs.unlink()
    assert "coverage     18 finished: 13 measured, 5 masked; missing not known" in summarized(capsys, run.path)
    found = Summary.model_validate_json(summarized(capsys, "--json", run.path)).runs[0].metrics
    assert (found.coverage.expected, found.coverage.missing, found.reward.missing) == (None, None, None)
    assert {estimate.missing for estimate in found.by_category.values()} == {None}
    text = compared(capsys, run.path, other.path)
    assert text.count("missing not known") == 1
    comparison = Comparison.model_validate_json(compared(capsys, "--json", run.path, other.path))
    assert (comparison.a.reward.missing, comparison.b.reward.missing) == (None, 0)
    assert (comparison.pairing.missing_rollouts_a, comparison.pairing.missing_rollouts_b) == (None, 0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no finished rollout yet; run it first"),
        (b'{"a": 1}\n{"a": 2}\n', "the line is no rollout of a run"),
        (b"\x00\xff" * 100, "holds no finished rollout yet"),
    ],
    ids=["empty", "another file", "bytes"],
)
def test_a_file_that_holds_no_run_is_refused_with_what_to_do(
    content: bytes, said: str, tmp_path: Path, capsys: Captured
) -> None:
    run = write_small_run(tmp_path)
    strange = tmp_path / "strange.jsonl"
    strange.write_bytes(content)
    for words in (["summary", strange], ["compare", run.path, strange], ["compare", strange, run.path]):
        told = refused(capsys, *words)
        assert "strange.jsonl" in told
        assert said in told


def test_a_path_that_is_no_file_is_refused(tmp_path: Path, capsys: Captured) -> None:
    run = write_small_run(tmp_path)
    for path, said in ((tmp_path, "is a folder"), (tmp_path / "no.jsonl", "no such file")):
        told = refused(capsys, "summary", run.path, "--baseline", path)
        assert f"{path}: {said}; give a run's output file" in told


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path, capsys: Captured) -> None:
    run = write_small_run(tmp_path)
    lines = run.path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"made", b"fake", 1)
    run.path.write_bytes(b"".join(lines))
    assert "small.jsonl:4: the line is damaged" in refused(capsys, "compare", run.path, run.path)


@pytest.mark.parametrize(
    ("content", "why"),
    [("{}", "run_hash: Field required"), ('{"run_ha', "it is not whole JSON"), ("[]", "it is no JSON object")],
)
def test_a_damaged_manifest_is_told_in_a_line_and_the_numbers_do_without(
    content: str, why: str, tmp_path: Path, capsys: Captured
) -> None:
    run, other = write_small_run(tmp_path), write_small_run(tmp_path, "other")
    run.files.manifest.write_text(content)
    for words in (["summary", run.path], ["compare", run.path, other.path]):
        assert main(["eval", *map(str, words)]) == 0
        told = capsys.readouterr()
        (line,) = told.err.splitlines()
        assert line.startswith(f"warning: {run.files.manifest} is damaged, or not what a run wrote ({why}): copy it")
        assert "model not known" in told.out
    told_of_judging = refused(capsys, "rejudge", run.path)
    assert f"{run.files.manifest} is damaged" in told_of_judging
    assert (len(told_of_judging.splitlines()), "pydantic" in told_of_judging) == (1, False)


def test_inputs_of_something_else_are_named(tmp_path: Path, capsys: Captured) -> None:
    run = write_small_run(tmp_path)
    run.files.inputs.write_bytes(run.path.read_bytes())
    told = refused(capsys, "summary", run.path)
    assert "small_materialized_inputs.jsonl:1: no input of a run" in told
    assert len(told.splitlines()) == 1


def test_the_table_is_refused_for_tasks_without_a_category(tmp_path: Path, capsys: Captured) -> None:
    run = write_small_run(tmp_path)
    plain = MadeRun(tmp_path, "plain")
    made = made_rollout(1)
    plain.write([replace(made, task=replace(made.task, category="", subtype=""))])
    told = refused(capsys, "summary", run.path, plain.path, "--table", "babyvision")
    assert "plain.jsonl: its tasks have no `category`" in told
    assert json.loads(summarized(capsys, plain.path, "--json"))["runs"][0]["metrics"]["by_category"] == {}
