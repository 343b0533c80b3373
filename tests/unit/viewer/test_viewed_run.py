"""The index of a run says what its records say, however the files look."""

import json
import os
from pathlib import Path

import pytest

from gym_core.errors import ConfigError
from gym_core.rollout.saved import SavedRun
from gym_core.rollout.sink import encode_line
from gym_core.statistics.outcome import outcome_of
from gym_core.types.cost import RunPrices, TokenPrices
from gym_core.types.metrics import MetricsReport
from gym_core.viewer.facts import read_facts
from gym_core.viewer.run import NotInRun, ViewedRun
from gym_core.viewer.shelf import Shelf, find_runs, is_run
from gym_core.viewer.types import RunState
from tests.fakes.made_runs import growing_run, write_small_run, write_uneven_run


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> ViewedRun:
    run = ViewedRun(write_uneven_run(tmp_path_factory.mktemp("uneven")).path)
    run.refresh()
    return run


def test_the_numbers_are_those_of_the_runs_own_report(uneven: ViewedRun) -> None:
    written = MetricsReport.model_validate_json(uneven.files.metrics.read_bytes())
    shown = uneven.metrics()
    assert shown.reward.model_copy(update={"unmeasured_tasks": written.reward.unmeasured_tasks}) == written.reward
    assert shown.coverage == written.coverage
    assert shown.failures == written.failures
    assert shown.tool_calls == written.tool_calls
    assert shown.seconds == written.seconds
    assert shown.measures == written.measures
    assert list(shown.measures) == ["look_calls", "roi_recall"]


def test_what_the_metrics_need_is_read_from_a_line_as_from_a_record(uneven: ViewedRun) -> None:
    lines = uneven.files.rollouts.read_bytes().splitlines()
    records = SavedRun(uneven.files.rollouts).records()
    for line, record in zip(lines, records, strict=True):
        assert read_facts(line, 0).outcome == outcome_of(record)


def test_a_run_says_what_is_masked_missing_and_broken(uneven: ViewedRun) -> None:
    card, detail = uneven.card(), uneven.detail()
    assert (card.coverage.expected, card.coverage.masked, card.coverage.missing) == (24, 5, 6)
    assert card.state is RunState.PARTIAL
    assert detail.attempts_by_kind == {"sandbox_error": 1}
    assert [attempt.kind for attempt in uneven.attempts_of(detail.attempts[0].task_hash, 0)] == ["sandbox_error"]
    assert detail.metrics.by_category["Visual Tracking"].missing == 1


def test_what_a_run_cost_is_worked_out_from_its_manifest(tmp_path: Path) -> None:
    made = write_small_run(tmp_path, n_tasks=2)
    manifest = json.loads(made.files.manifest.read_bytes())
    prices = RunPrices(
        policy=TokenPrices(input=1.0, output=2.0, currency="EUR"),
        judge=TokenPrices(input=0.0, output=0.0, currency="EUR"),
    )
    made.files.manifest.write_text(json.dumps({**manifest, "prices": prices.model_dump()}))
    run = ViewedRun(made.path)
    run.refresh()
    spend = run.metrics().spend
    assert spend is not None
    assert run.card().cost == pytest.approx((spend.policy.input + 2 * spend.policy.output) / 1e6)
    assert run.card().currency == "EUR"


def test_a_run_without_prices_has_no_cost(uneven: ViewedRun) -> None:
    assert uneven.card().cost is None


def test_rollouts_appear_as_they_are_written(tmp_path: Path) -> None:
    with growing_run(tmp_path, n_first=2, n_tasks=5, pause_s=0) as growing:
        run = ViewedRun(growing.run.path)
        before = run.refresh()
        assert (len(run.rollout_ids()), run.card().state) == (2, RunState.RUNNING)
        assert run.refresh() == before
        growing.add(2)
        assert run.refresh() != before
        assert len(run.rollout_ids()) == 4
    run.refresh()
    assert run.card().state is RunState.PARTIAL


def test_a_session_that_is_played_is_seen_until_it_is_finished(tmp_path: Path) -> None:
    with growing_run(tmp_path, n_first=1, n_tasks=3, pause_s=0) as growing:
        begun = growing.begin(2)
        run = ViewedRun(growing.run.path)
        run.refresh()
        (session,) = run.detail().in_flight
        assert session.rollout.startswith(f"t{begun.index}-r0-")
        growing.add()
        run.refresh()
        assert run.detail().in_flight == []


def test_half_a_line_waits_and_is_no_damage_while_the_run_goes_on(tmp_path: Path) -> None:
    with growing_run(tmp_path, n_first=2, n_tasks=3, pause_s=0) as growing:
        growing.run.tear(growing.rest[0])
        run = ViewedRun(growing.run.path)
        run.refresh()
        assert len(run.rollout_ids()) == 2
        assert not [problem for problem in run.card().problems if "cut off" in problem]


def test_damage_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    made = write_small_run(tmp_path, n_tasks=4)
    lines = made.path.read_bytes().splitlines(keepends=True)
    foreign = encode_line({"a": "row of somebody else"})
    made.path.write_bytes(lines[0] + lines[1].replace(b"reward", b"rewarb") + foreign + lines[2] + lines[3][:50])
    made.files.manifest.write_text("{")
    made.files.failures.write_bytes(b"rubbish\n")
    run = ViewedRun(made.path)
    run.refresh()
    assert len(run.rollout_ids()) == 2
    told = " ".join(run.card().problems)
    assert "2 of its lines are damaged" in told
    assert "cut off" in told
    assert made.files.manifest.name in told
    assert made.files.failures.name in told


@pytest.mark.parametrize("name", ["inputs", "manifest", "assets", "captures"])
def test_a_file_that_is_missing_is_told_of_the_run_and_only_while_it_is(name: str, tmp_path: Path) -> None:
    made = write_small_run(tmp_path, n_tasks=2)
    run = ViewedRun(made.path)
    before = run.refresh()
    assert run.card().problems == []
    path: Path = getattr(made.files, name)
    path.rename(tmp_path / "aside")
    assert run.refresh() != before
    (told,) = run.card().problems
    assert told.startswith(path.name)
    assert "is not there" in told
    (tmp_path / "aside").rename(path)
    run.refresh()
    assert run.detail().card.problems == []


def test_model_calls_that_are_missing_are_counted(tmp_path: Path) -> None:
    made = write_small_run(tmp_path, n_tasks=3)
    next(made.files.captures.iterdir()).unlink()
    run = ViewedRun(made.path)
    run.refresh()
    assert run.card().problems == [f"{made.files.captures.name}/: the model calls of 1 of 3 rollouts are not there"]


@pytest.mark.parametrize(
    "change",
    [
        {"reward": 7},
        {"reward": "1"},
        {"_ng_rollout_id": "../../etc"},
        {"_gym_timing": []},
        {"_gym_capture": {"session_id": "../x"}},
    ],
    ids=str,
)
def test_a_line_of_another_shape_is_no_rollout(tmp_path: Path, change: dict[str, object]) -> None:
    made = write_small_run(tmp_path, n_tasks=1)
    row = json.loads(made.path.read_bytes())
    made.path.write_bytes(encode_line({**{k: v for k, v in row.items() if k != "_gym_crc32"}, **change}))
    run = ViewedRun(made.path)
    run.refresh()
    assert run.rollout_ids() == []
    assert run.card().problems


def test_rollouts_of_one_id_are_told_apart(tmp_path: Path) -> None:
    made = write_small_run(tmp_path, n_tasks=1)
    made.path.write_bytes(made.path.read_bytes() * 3)
    run = ViewedRun(made.path)
    run.refresh()
    first, second, third = run.rollout_ids()
    assert (second, third) == (f"{first}~2", f"{first}~3")
    assert run.neighbours(second) == (first, third)
    with pytest.raises(NotInRun):
        run.facts("another")


def test_folders_are_searched_for_runs_and_their_other_files_are_none(tmp_path: Path) -> None:
    one, two = write_small_run(tmp_path / "a", n_tasks=1), write_small_run(tmp_path / "b" / "c", n_tasks=1)
    (tmp_path / "notes.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "loop").symlink_to(tmp_path)
    assert find_runs([tmp_path]) == [one.path, two.path]
    assert find_runs([one.path, tmp_path / "a"]) == [one.path]
    assert not is_run(one.files.inputs)


def test_a_run_that_begins_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_core.viewer.shelf.LOOK_EVERY_S", 0.0)
    shelf = Shelf([tmp_path])
    assert shelf.runs() == []
    write_small_run(tmp_path, n_tasks=1)
    assert len(shelf.runs()) == 1


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        Shelf([tmp_path / "nothing.jsonl"])
    made = write_small_run(tmp_path, n_tasks=1)
    (tmp_path / "x.txt").touch()
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    for path in (tmp_path / "x.txt", tmp_path / "other.jsonl", made.files.inputs):
        with pytest.raises(ConfigError, match="no run's output file"):
            Shelf([path])


def test_a_file_name_that_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    made = write_small_run(tmp_path, n_tasks=1)
    odd = tmp_path / os.fsdecode(b"odd\xff.jsonl")
    made.path.rename(odd)
    run = ViewedRun(odd)
    run.refresh()
    assert "odd\ufffd" in run.detail().model_dump_json()
