"""Saved runs that tests make are what a run would have written."""

from pathlib import Path

from gym_core.capture.recorder import capture_path
from gym_core.rollout.saved import SavedRun
from gym_core.types.metrics import MetricsReport
from tests.fakes.captured import read_calls
from tests.fakes.hostile_run import ATTACKS, write_hostile_run
from tests.fakes.made_runs import growing_run, write_long_rollout, write_pair, write_uneven_run


def test_an_uneven_run_counts_what_is_masked_and_what_is_missing(tmp_path: Path) -> None:
    run = write_uneven_run(tmp_path)
    report = MetricsReport.model_validate_json(run.files.metrics.read_bytes())
    coverage = report.coverage
    assert (coverage.expected, coverage.finished, coverage.masked, coverage.missing) == (24, 18, 5, 6)
    assert coverage.fully_masked_tasks == 1
    assert report.failures["model_unavailable"] == 2


def test_a_long_rollout_keeps_its_calls_and_pictures_and_tells_of_its_drifts(tmp_path: Path) -> None:
    run = write_long_rollout(tmp_path, n_turns=24, n_pictures=9)
    (record,) = SavedRun(run.path).records()
    capture, sequences = record.evidence.capture, record.evidence.sequences
    assert capture is not None
    assert sequences is not None
    assert len(capture.images) == 10
    assert [call.index for call in read_calls(capture_path(run.files.captures, capture.session_id))] == list(range(24))
    assert (sequences.calls, sum(sequences.drifts.values())) == (24, 1)  # the second drift is of a longer one


def test_a_pair_has_the_same_tasks_but_for_one(tmp_path: Path) -> None:
    first, second = write_pair(tmp_path, n_tasks=9)
    rewards = [{r.key: r.verification.reward for r in SavedRun(run.path).records()} for run in (first, second)]
    assert len(rewards[0]) == len(rewards[1]) + 1
    flipped = {key for key, reward in rewards[1].items() if rewards[0][key] != reward}
    assert len(flipped) == 3  # 0 is lost, 2 and 5 are won


def test_a_growing_run_is_readable_while_it_is_written(tmp_path: Path) -> None:
    with growing_run(tmp_path, n_first=2, n_tasks=5, pause_s=0.0) as growing:
        begun = growing.begin()
        assert len(list(growing.run.files.captures.iterdir())) == 3
        growing.add(2)
        assert len(list(SavedRun(growing.run.path).records())) == 4
    growing.run.tear(begun)
    torn = SavedRun(growing.run.path)
    assert (len(list(torn.records())), torn.torn_bytes > 0) == (4, True)


def test_a_hostile_run_is_read_back_word_for_word(tmp_path: Path) -> None:
    hostile = write_hostile_run(tmp_path, huge_line_bytes=10_000)
    questions = [record.task.task_data["question"] for record in SavedRun(hostile.run.path).records()]
    assert tuple(questions[: len(ATTACKS)]) == ATTACKS
