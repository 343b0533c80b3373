from pathlib import Path

from gym_core.comparison.scored_run import read_scored_run
from gym_core.rollout.saved import SavedRun
from gym_core.statistics.outcome import outcome_of
from gym_core.statistics.spend import SpendTally
from tests.fakes.made_runs import write_uneven_run


def test_an_outline_is_its_record_without_what_was_said(tmp_path: Path) -> None:
    saved = SavedRun(write_uneven_run(tmp_path).path)
    records, outlines = list(saved.records()), list(saved.outlines())
    assert [outcome_of(record) for record in records] == [outcome_of(outline) for outline in outlines]
    for record, outline in zip(records, outlines, strict=True):
        assert record.evidence.response is not None
        assert outline.evidence.response is not None
        assert record.evidence.response.output
        assert outline.evidence.response.output == []


def test_each_task_has_its_rows_its_masked_and_its_missing_repeats(tmp_path: Path) -> None:
    run = read_scored_run(write_uneven_run(tmp_path).path)
    counts = {task.row_id: (len(task.rewards), task.masked, task.missing) for task in run.tasks.values()}
    assert counts == {
        "made/1000": (3, 0, 0),
        "made/1001": (2, 1, 0),
        "made/1002": (1, 1, 1),
        "made/1003": (0, 3, 0),
        "made/1004": (3, 0, 0),
        "made/1005": (3, 0, 0),
        "made/1006": (1, 0, 2),
        "made/1007": (0, 0, 3),
    }
    assert (run.model, run.harnesses, run.judges) == ("made-vl-7b", {"opencode 1.17.11"}, {("a-judge", "")})


def test_a_saved_runs_report_says_what_it_took(tmp_path: Path) -> None:
    made = write_uneven_run(tmp_path)
    tally = SpendTally()
    for record in SavedRun(made.path).records():
        tally.note_record(record)
    spend = read_scored_run(made.path).report().spend
    assert spend is not None
    assert spend.policy.input >= tally.total().policy.input > 0
    assert (spend.attempts >= tally.total().attempts, spend.cost) == (True, None)
