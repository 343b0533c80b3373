import io

import pytest

from gym_core.cli.display import LiveDisplay, PlainDisplay, make_display, progress_line
from gym_core.types.run import RunProgress, RunState

BASE = RunProgress(run_id="run-1", state=RunState.RUNNING, total=388)


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (
            RunProgress(run_id="r", state=RunState.STARTING),
            "starting",
        ),
        (
            RunProgress(run_id="r", state=RunState.STARTING, message="waiting, x.jsonl is in use"),
            "starting; waiting, x.jsonl is in use",
        ),
        (
            BASE.model_copy(
                update={
                    "done": 37,
                    "resumed": 12,
                    "running": 8,
                    "masked": 1,
                    "retries": 2,
                    "mean_reward": 0.41,
                    "ci_low_95": 0.33,
                    "ci_high_95": 0.49,
                    "rollouts_per_s": 0.25,
                    "remaining_s": 1620.0,
                    "failures": {"judge_failed": 1, "agent_timeout": 2},
                }
            ),
            "37/388 done (12 before), 8 running, 1 masked, 2 retries, reward 0.410 [0.330, 0.490], 15.0/min, "
            "27 min 00 s left, agent_timeout 2, judge_failed 1",
        ),
        (
            BASE.model_copy(update={"state": RunState.FAILED, "message": "no\x1b[31m\nfile", "mean_reward": 1.0}),
            "failed: 0/388 done, 0 running, 0 masked, reward 1.000; no[31m file",
        ),
        (
            BASE.model_copy(update={"state": RunState.DRAINING, "retries": 1, "rollouts_per_s": 0.001}),
            "draining: 0/388 done, 0 running, 0 masked, 1 retry, reward not measured yet, 3.6/h",
        ),
    ],
)
def test_a_run_in_one_line(progress: RunProgress, line: str) -> None:
    assert progress_line(progress) == line


def test_plain_lines_come_at_changes_of_state_and_otherwise_every_ten_seconds() -> None:
    lines: list[str] = []
    now = [0.0]
    display = PlainDisplay(lines.append, lambda: now[0])
    updates: list[tuple[float, dict[str, object]]] = [
        (0.0, {"done": 0}),
        (1.0, {"done": 1}),  # too soon
        (9.9, {"done": 2}),  # too soon
        (10.0, {"done": 3}),
        (25.0, {"done": 3}),  # no news
        (26.0, {"done": 3, "failures": {"judge_failed": 1}}),
        (26.5, {"done": 3, "state": RunState.DRAINING}),
        (27.0, {"done": 4, "state": RunState.DRAINING}),  # too soon
        (27.5, {"done": 4, "state": RunState.CANCELLED}),
    ]
    for at, update in updates:
        now[0] = at
        display.update(BASE.model_copy(update=update))
    assert [line.partition(" done")[0] for line in lines] == [
        "0/388",
        "3/388",
        "3/388",
        "draining: 3/388",
        "cancelled: 4/388",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_panel_and_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    display = make_display(terminal)
    assert isinstance(display, LiveDisplay)
    display.update(BASE.model_copy(update={"done": 194, "failures": {"judge\x1b_failed": 3}}))
    display.note("stopping\x07")
    display.close()
    assert "194/388" in terminal.getvalue()
    assert "judge_failed 3" in terminal.getvalue()
    assert "\x07" not in terminal.getvalue()
    assert isinstance(make_display(io.StringIO()), PlainDisplay)
