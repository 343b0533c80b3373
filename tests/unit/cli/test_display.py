import io

import pytest

from gym_core.cli.display import LiveDisplay, PlainDisplay, make_display, progress_line, slow_rows, slow_text
from gym_core.types.cost import Spend, TokenCount
from gym_core.types.run import ActiveRollout, RunProgress, RunState

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
                    "slots": 16,
                    "spend": Spend(cost=1.5, currency="EUR"),
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
            "37/388 done (12 before), 8/16 running, 1 masked, 2 retries, reward 0.410 [0.330, 0.490], 15.0/min, "
            "27 min 00 s left, 1.50 EUR, agent_timeout 2, judge_failed 1",
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


def active(index: int, **fields: object) -> ActiveRollout:
    known = {"rollout_id": f"t{index}-r0", "task_index": index, "task_id": str(index), "repeat": 0, "attempt": 0}
    timed = {"stage": "respond", "stage_s": 70.0, "total_s": 75.0}
    return ActiveRollout.model_validate(known | timed | fields)


def test_a_run_in_which_nothing_ends_says_every_minute_what_it_is_doing() -> None:
    lines: list[str] = []
    now = [0.0]
    display = PlainDisplay(lines.append, lambda: now[0])
    busy = BASE.model_copy(
        update={"running": 3, "slots": 8, "active": [active(17), active(4, stage="verify"), active(5)]}
    )
    for second in range(0, 130):
        now[0] = float(second)
        display.update(busy)
    assert lines == [
        "0/388 done, 3/8 running, 0 masked, reward not measured yet",
        *2 * [
            "0/388 done, 3/8 running, 0 masked, reward not measured yet; "
            "task 17 agent playing for 1 min 10 s; task 4 being graded for 1 min 10 s"
        ],
    ]  # fmt: skip


def test_news_after_a_sign_of_life_is_a_line_again() -> None:
    lines: list[str] = []
    now = [0.0]
    display = PlainDisplay(lines.append, lambda: now[0])
    for at, done in ((0.0, 0), (60.0, 0), (65.0, 1), (70.0, 1), (70.5, 2)):
        now[0] = at
        display.update(BASE.model_copy(update={"done": done, "running": 1, "active": [active(1)]}))
    assert [line.partition(" done")[0] for line in lines] == ["0/388", "0/388", "1/388"]


def test_the_slowest_are_named_with_what_they_do_and_for_how_long() -> None:
    shown = [
        active(7, task_id="maze-3", repeat=2, attempt=1, stage="seed", stage_s=4.0, total_s=4.0),
        active(9, stage="dreaming\x1b[2J", stage_s=3700.0),
        active(10, calls=1),
    ]
    rows = slow_rows(BASE.model_copy(update={"running": 5, "active": shown}))
    assert rows == [
        ("slowest", "doing", "for", "in all"),
        ("task 7 (maze-3) repeat 3, attempt 2", "making its sandbox", "4 s", "4 s"),
        ("task 9", "dreaming[2J", "1 h 01 min", "1 min 15 s"),
        ("task 10", "agent playing, 1 model call", "1 min 10 s", "1 min 15 s"),
        ("and 2 more", "", "", ""),
    ]


def test_a_task_whose_name_is_hostile_is_one_short_line() -> None:
    hostile = active(1, task_id="\x1b]0;owned\x07\n\u202e" + "x" * 500)
    text = slow_text(BASE.model_copy(update={"active": [hostile]}))
    assert text.startswith("task 1 (]0;owned xxx")
    assert len(text) < 100
    assert text.isprintable()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_panel_and_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    display = make_display(terminal)
    assert isinstance(display, LiveDisplay)
    update: dict[str, object] = {
        "done": 194,
        "failures": {"judge\x1b_failed": 3},
        "running": 1,
        "slots": 8,
        "active": [active(3, task_id="[red]maze\x1b[0m")],
        "spend": Spend(policy=TokenCount(input=12_345), judge=TokenCount(output=67), cost=2.0, currency="USD"),
    }
    display.update(BASE.model_copy(update=update))
    display.note("stopping\x07")
    display.close()
    assert "194/388" in terminal.getvalue()
    assert "judge_failed 3" in terminal.getvalue()
    assert "1/8 slots" in terminal.getvalue()
    assert "12,345 in, 67 out" in terminal.getvalue()
    assert "2.00 USD" in terminal.getvalue()
    assert "task 3 ([red]maze[0m)" in terminal.getvalue()
    assert "agent playing" in terminal.getvalue()
    assert "\x07" not in terminal.getvalue()
    assert isinstance(make_display(io.StringIO()), PlainDisplay)
