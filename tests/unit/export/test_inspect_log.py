"""A saved run as a log of Inspect: its head, its samples, its pictures, and what is masked."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gym_core.capture.images import make_reference
from gym_core.cli.main import main
from gym_core.errors import FailureKind
from gym_core.export.formats.inspect_log import log_messages
from gym_core.rollout.output import RunManifest, write_json
from gym_core.statistics.outcome import outcome_of
from gym_core.statistics.report import aggregate
from gym_core.types.cost import RunPrices, TokenPrices
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from tests.unit.export.saved_runs import ANSWER, FakeRun


def named(url: str) -> JsonObject:
    return {"type": "text", "text": url}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A right answer and one whose judge failed, priced."""
    fake = FakeRun(tmp_path / "results")
    right = fake.record(0, fake.tool_session(), input_tokens=1_000_000, output_tokens=0)
    task = right.task.model_copy(update={"task_data": {"expected_answer": "red"}})
    graded = Verification(
        reward=1.0, shaping={"tool_use": 0.25}, details={"extracted_answer": "red", "judge_reason": "same"}
    )
    records = [
        right.model_copy(update={"task": task, "verification": graded}),
        fake.record(1, fake.tool_session(), failure=FailureKind.JUDGE_FAILED),
    ]
    path = fake.write(records)
    manifest = RunManifest.model_validate_json(fake.files.manifest.read_bytes())
    prices = RunPrices(policy=TokenPrices(input=2, output=8, currency="USD"))
    write_json(fake.files.manifest, manifest.model_copy(update={"prices": prices}).model_dump(mode="json"))
    report = aggregate([outcome_of(record) for record in records], environment="puzzles", expected=2)
    write_json(fake.files.metrics, report.model_dump(mode="json"))
    return path


def export(run: Path, *words: str, name: str = "log.json") -> JsonObject:
    output = run.parent / name
    assert main(["export", "--format", "inspect", "--output", str(output), *words, str(run)]) == 0
    log: JsonObject = json.loads(output.read_bytes())
    return log


def test_its_head_says_what_ran_and_what_came_out(run: Path) -> None:
    log = export(run)
    assert (log["version"], log["status"], log["eval"]["task"], log["eval"]["model"]) == (
        2,
        "success",
        "puzzles",
        "tiny",
    )
    (score,) = log["results"]["scores"]
    assert (score["scored_samples"], score["unscored_samples"], score["metrics"]["mean"]["value"]) == (1, 1, 1.0)
    assert log["stats"]["model_usage"]["tiny"]["input_tokens"] == 1_000_000
    assert log["stats"]["model_usage"]["tiny"]["total_cost"] is None  # nobody counted the other rollout's tokens
    assert log["eval"]["created"].endswith("+00:00")


def test_a_sample_has_the_conversation_and_its_score_and_a_masked_one_has_its_error(run: Path) -> None:
    right, masked = export(run)["samples"]
    assert (right["id"], right["epoch"], right["target"]) == ("0", 1, "red")
    assert right["scores"]["reward"]["value"] == 1.0
    assert right["scores"]["reward"]["metadata"]["shaping"] == {"tool_use": 0.25}
    assert (right["scores"]["reward"]["answer"], right["scores"]["reward"]["explanation"]) == ("red", "same")
    assert right["output"]["completion"] == ANSWER
    assert right["model_usage"]["tiny"]["total_cost"] == 2.0
    assert [message["role"] for message in right["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert masked["scores"] == {}
    assert masked["error"]["message"] == "judge_failed: it was the fake"


def test_pictures_are_named_or_are_in_the_file(run: Path) -> None:
    def parts(log: JsonObject) -> list[JsonObject]:
        (tool,) = [message for message in log["samples"][0]["messages"] if message["role"] == "tool"]
        content: list[JsonObject] = tool["content"]
        return content

    assert [part["type"] for part in parts(export(run))] == ["text", "text"]
    assert parts(export(run, name="again.json"))[1]["text"].startswith("[picture sha256:")
    shown = parts(export(run, "--images", "inline", name="inline.json"))[1]
    assert (shown["type"], shown["image"][:22]) == ("image", "data:image/png;base64,")


def test_what_is_thought_said_and_called_in_one_turn_is_one_message() -> None:
    items: list[OutputItem] = [
        InputMessage(role="developer", content="be brief"),
        ReasoningItem(id="r", content=[ReasoningText(text="hm")]),
        OutputMessage(id="m", content=[OutputText(text="I look.")]),
        FunctionCall(call_id="c1", name="read", arguments='{"path": "x.png"}'),
        FunctionCall(call_id="c2", name="bash", arguments="not JSON"),
        FunctionCallOutput(
            call_id="c1", output=[InputText(text="here"), InputImage(image_url=make_reference("0" * 64))]
        ),
        FunctionCallOutput(call_id="c2", output="no"),
        OutputMessage(id="n", content=[OutputText(text="done")]),
    ]
    system, turn, first, second, last = log_messages(items, named)
    assert (system["role"], last["content"]) == ("system", [{"type": "text", "text": "done"}])
    assert [part["type"] for part in turn["content"]] == ["reasoning", "text"]
    assert [call["arguments"] for call in turn["tool_calls"]] == [{"path": "x.png"}, {"text": "not JSON"}]
    assert (first["tool_call_id"], first["function"], second["function"]) == ("c1", "read", "bash")
    assert first["content"][1]["text"] == f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output", "log.txt"], "end it in .json"),
        (["--output", "log.json", "--branches", "all"], "--branches is for training formats"),
        (["--output", "log.json", "--images", "files"], "--images is for training formats"),
    ],
)
def test_what_it_cannot_do_is_refused(
    words: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    assert main(["export", "--format", "inspect", *words, str(run)]) == 2
    assert said in capsys.readouterr().err


def test_a_run_that_has_not_ended_and_two_at_once_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = run.with_name("other.jsonl")
    other.write_bytes(run.read_bytes())
    output = str(run.parent / "log.json")
    assert main(["export", "--format", "inspect", "--output", output, str(other)]) == 2
    assert "other_aggregate_metrics.json is not there" in capsys.readouterr().err
    assert main(["export", "--format", "inspect", "--output", output, str(run), str(other)]) == 2
    assert "of one run" in capsys.readouterr().err
    assert not Path(output).exists()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason="inspect_ai is not installed")
def test_inspect_itself_reads_the_log(run: Path) -> None:
    export(run, "--images", "inline")
    script = f"""
from inspect_ai.log import read_eval_log
log = read_eval_log({str(run.parent / "log.json")!r})
print(log.status, len(log.samples), log.samples[0].scores["reward"].value, log.samples[1].error.message)
"""
    read = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert read.stdout.split("\n")[0] == "success 2 1.0 judge_failed: it was the fake"
