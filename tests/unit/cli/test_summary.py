from pathlib import Path

from gym_core.cli.summary import summary_lines
from gym_core.types.metrics import Coverage, Estimate, MetricsReport, SequenceReport, Spread
from gym_core.types.run import RunProgress, RunResult, RunState
from gym_core.types.sample import DriftReason

REPORT = MetricsReport(
    environment="puzzles",
    reward=Estimate(mean=0.625, ci_low_95=0.48, ci_high_95=0.77, tasks=24, rollouts=48),
    coverage=Coverage(expected=48, finished=47, measured=45, masked=2, missing=1, fully_masked_tasks=1),
    key_metrics={"mean/reward": 0.625, "pass@2": 0.75},
    by_category={
        "Fine-grained": Estimate(mean=0.5, tasks=1, rollouts=2),
        "B\x1b[1m": Estimate(mean=None, tasks=0, rollouts=0),
    },
    by_subtype={},
    failures={"agent_timeout": 3, "judge_failed": 2},
    masked_failures={"judge_failed": 2},
    tool_calls={"bash": Spread(mean=4.5, median=4, p95=9, max=1200)},
    tokens={},
    seconds={},
    matcher_agreement=0.975,
)


def test_the_summary_has_the_number_the_failures_and_the_files(tmp_path: Path) -> None:
    progress = RunProgress(run_id="r", state=RunState.DONE, total=48, done=47, elapsed_s=200)
    names = {"zeta": "z", "metrics": "x_aggregate_metrics.json", "rollouts": "x.jsonl", "failures": "never_written"}
    files = {name: str(tmp_path / file) for name, file in names.items()}
    for name in ("zeta", "metrics", "rollouts"):
        Path(files[name]).write_text("")
    lines = summary_lines(RunResult(progress=progress, metrics=REPORT, files=files))
    text = "\n".join(lines)
    assert lines[0] == "done after 3 min 20 s"
    assert "mean/reward  0.6250  [0.4800, 0.7700]  (95 % interval, clustered by task; 24 tasks, 48 rollouts)" in text
    assert "47 of 48 finished: 45 measured, 2 masked; 1 missing, 1 task masked throughout" in text
    assert "  pass@2  0.7500" in text
    assert "  Fine-grained  0.5000        1 task" in text
    assert "B[1m" in text
    assert "  agent_timeout  3  3 scored 0, 0 masked" in text
    assert "  judge_failed   2  masked" in text
    assert "bash  4.5   4.0     9.0  1,200.0" in text
    assert "97.5%" in text
    assert [line.split()[0] for line in lines[-3:]] == ["rollouts", "metrics", "zeta"]
    assert "\x1b" not in text


def test_a_stopped_run_says_how_to_go_on() -> None:
    progress = RunProgress(run_id="r", state=RunState.CANCELLED, total=10, done=4, message="as asked")
    lines = summary_lines(RunResult(progress=progress))
    assert summary_lines(RunResult(progress=progress.model_copy(update={"done": 9})))[-1].startswith(
        "1 rollout is still"
    )
    assert lines == ["cancelled after 0 s: as asked", "6 rollouts are still to do: the same command goes on from here"]


def tokens_line(sequences: SequenceReport | None) -> list[str]:
    progress = RunProgress(run_id="r", state=RunState.DONE)
    report = REPORT.model_copy(update={"sequences": sequences})
    return [
        line
        for line in summary_lines(RunResult(progress=progress, metrics=report))
        if line.startswith("  tokens ")
    ]  # fmt: skip


def test_one_line_says_how_much_of_what_was_sampled_drifted() -> None:
    drifts = {DriftReason.RETOKENIZED: 1, DriftReason.REASONING_DROPPED: 3}
    clean = SequenceReport(rollouts=8, drifted_rollouts=0, calls=20, sampled_tokens=900)
    drifted = clean.model_copy(
        update={"drifted_rollouts": 2, "drifts": drifts, "drifted_tokens": 70, "incomplete_calls": 1}
    )
    assert tokens_line(None) == []
    none = SequenceReport(rollouts=0, drifted_rollouts=0, incomplete_calls=4)
    assert tokens_line(none) == ["  tokens       none captured: 4 calls without all token ids"]
    assert tokens_line(clean) == ["  tokens       900 sampled tokens captured in 20 calls; no drift"]
    assert tokens_line(drifted) == [
        "  tokens       900 sampled tokens captured in 20 calls, 1 call not whole; drift in 25.0% of the rollouts "
        "(reasoning_dropped 3, retokenized 1; 70 tokens)"
    ]
