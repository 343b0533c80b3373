"""Saved runs to experiment trackers: what they are given, and the real clients with their local stores."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gym_core.cli.main import main
from gym_core.errors import ConfigError
from gym_core.export.trackers.contract import TrackedRun, TrackerName, load_tracker, log_run
from gym_core.export.trackers.saved import report_numbers, tracked_run
from gym_core.rollout.output import RunManifest, write_json
from gym_core.rollout.saved import SavedRun
from gym_core.statistics.outcome import outcome_of
from gym_core.statistics.report import aggregate
from gym_core.statistics.spend import SpendTally
from gym_core.types.cost import RunPrices, TokenPrices
from tests.unit.export.saved_runs import FakeRun

PRICES = RunPrices(policy=TokenPrices(input=2, output=8, currency="USD"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has ended: two rollouts of two tasks, in two categories."""
    fake = FakeRun(tmp_path / "results")
    records = [fake.record(n, fake.tool_session(), input_tokens=1_000_000, output_tokens=0) for n in range(2)]
    categories = ("Fine-grained: <b>", "../../x")
    records = [
        record.model_copy(
            update={"task": record.task.model_copy(update={"task_data": {"category": category, "phrase": "x"}})}
        )
        for record, category in zip(records, categories, strict=True)
    ]
    path = fake.write(records)
    tally = SpendTally(PRICES)
    for record in records:
        tally.note_record(record)
    report = aggregate([outcome_of(r) for r in records], environment="puzzles", expected=2)
    write_json(fake.files.metrics, report.model_copy(update={"spend": tally.total()}).model_dump(mode="json"))
    manifest = RunManifest(
        run_hash="h" * 64,
        identity={"servers": {"grader": {"judge": "llm", "options": [1, 2], "nothing": None}}},
        datasets={"puzzles": {"path": "/somewhere/private.jsonl", "sha256": "ab"}},
        options={"output_jsonl_fpath": "/somewhere/private.jsonl", "limit": 2},
        argv=["gym", "++key=secret"],
        prices=PRICES,
    )
    write_json(fake.files.manifest, manifest.model_dump(mode="json"))
    return path


class FakeTracker:
    def __init__(self, error: Exception | None = None) -> None:
        self.seen: list[TrackedRun] = []
        self._error = error

    def log(self, run: TrackedRun) -> str:
        if self._error:
            raise self._error
        self.seen.append(run)
        return "here"


def test_a_tracker_is_given_what_ran_what_came_out_and_the_rollouts(run: Path) -> None:
    tracker = FakeTracker()
    assert log_run(tracker, tracked_run(SavedRun(run), project="p")) == "here"
    (seen,) = tracker.seen
    assert (seen.project, seen.name, seen.run_hash) == ("p", "run", "h" * 64)
    assert seen.config["servers.grader.judge"] == "llm"
    assert seen.config["servers.grader.options"] == "[1, 2]"
    assert (seen.config["datasets.puzzles.sha256"], seen.config["options.limit"]) == ("ab", 2)
    assert (seen.config["prices.policy.input"], seen.config["prices.policy.currency"]) == (2.0, "USD")
    assert (seen.metrics["mean/reward"], seen.metrics["coverage/masked"], seen.metrics["spend/cost"]) == (1.0, 0.0, 4.0)
    assert len(list(seen.table.rows())) == 2


def test_no_path_no_command_line_and_nothing_empty_is_sent(run: Path) -> None:
    config = tracked_run(SavedRun(run), project="p").config
    assert "private" not in json.dumps(config)
    assert "secret" not in json.dumps(config)
    assert "servers.grader.nothing" not in config


def test_a_run_has_the_same_id_whenever_it_is_logged_and_another_under_another_name(run: Path) -> None:
    ids = [tracked_run(SavedRun(run), project="p", name=name).id for name in (None, None, "other")]
    assert ids[0] == ids[1] != ids[2]
    assert all(re.fullmatch(r"[0-9a-f]{16}", found) for found in ids)


def test_what_was_not_measured_is_no_zero() -> None:
    numbers = report_numbers(aggregate([], environment="e", expected=3))
    assert "mean/reward" not in numbers
    assert (numbers["coverage/missing"], [n for n in numbers if n.startswith("spend")]) == (3.0, [])


@pytest.mark.parametrize("ending", ["_aggregate_metrics.json", "_run.json"])
def test_a_run_without_its_files_is_refused_with_the_file(run: Path, ending: str) -> None:
    file = run.with_name(run.stem + ending)
    file.unlink()
    with pytest.raises(ConfigError, match=f"{re.escape(file.name)} is not there"):
        tracked_run(SavedRun(run), project="p")


def test_whatever_a_tracker_raises_is_one_line(run: Path) -> None:
    with pytest.raises(ConfigError, match="run 'run' was not logged: KeyError: 'api_key'"):
        log_run(FakeTracker(KeyError("api_key")), tracked_run(SavedRun(run), project="p"))


def test_a_tracker_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "gym_core.export.trackers.wandb_tracker", raising=False)
    with pytest.raises(ConfigError, match=r"install visual-agent-gym\[wandb\]"):
        load_tracker(TrackerName.WANDB)


def test_one_name_is_for_one_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "results" / "other.jsonl"
    other.write_bytes(run.read_bytes())
    assert main(["export", "--to", "wandb", "--name", "n", str(run), str(other)]) == 2
    assert "--name is for one run" in capsys.readouterr().err


# -- the real clients, in processes of their own: they start threads, and warn of things that are not ours ---------


def has(package: str) -> "pytest.MarkDecorator":
    return pytest.mark.skipif(
        importlib.util.find_spec(package) is None, reason=f"{package} is not installed: visual-agent-gym[{package}]"
    )


def export(run: Path, folder: Path, tracker: str, **environment: str) -> str:
    """What the command says on its standard output."""
    folder.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "MLFLOW_"))}
    ended = subprocess.run(
        [sys.executable, "-m", "gym_core.cli.main", "export", "--to", tracker, "--project", "eyes", str(run)],
        cwd=folder,
        env=kept | {"HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
@has("wandb")
def test_wandb_keeps_a_run_offline_and_says_how_to_send_it(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "wandb"
    said = export(run, folder, "wandb", WANDB_MODE="offline", WANDB_DIR=str(folder))
    assert "offline; `wandb sync` sends it" in said
    (kept,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    assert kept.name == f"run-{tracked_run(SavedRun(run), project='eyes').id}.wandb"
    (table,) = folder.glob("wandb/offline-run-*/files/media/table/rollouts_*.table.json")
    content = json.loads(table.read_text())
    rewards = [row[content["columns"].index("reward")] for row in content["data"]]
    assert rewards == [1.0, 1.0]
    assert b"mean/reward" in kept.read_bytes()
    everything = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"++key=secret" not in everything
    assert b"private.jsonl" not in everything


@pytest.mark.slow
@has("mlflow")
@has("sqlalchemy")
def test_mlflow_keeps_a_run_in_a_local_file_and_updates_it(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mlflow"
    store = f"sqlite:///{folder}/mlflow.db"
    for _ in range(2):
        said = export(run, folder, "mlflow", MLFLOW_TRACKING_URI=store)
        assert "of experiment 'eyes'" in said
    script = f"""
import json, pathlib
from mlflow import MlflowClient
client = MlflowClient(tracking_uri={store!r})
(run,) = client.search_runs([client.get_experiment_by_name("eyes").experiment_id])
folder = run.info.artifact_uri.removeprefix("file://")
table = json.loads(pathlib.Path(folder, "rollouts.json").read_text())
print(json.dumps([run.info.run_name, run.info.status, run.data.params, run.data.metrics, table]))
"""
    read = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    name, status, params, metrics, table = json.loads(read.stdout.splitlines()[-1])
    assert (name, status) == ("run", "FINISHED")
    assert (params["servers.grader.judge"], params["run_hash"]) == ("llm", "h" * 64)
    assert (metrics["mean/reward"], metrics["spend/cost"]) == (1.0, 4.0)
    assert metrics["category/Fine-grained_ _b_"] == 1.0
    assert metrics["category/x"] == 1.0
    assert [row[table["columns"].index("reward")] for row in table["data"]] == [1.0, 1.0]
