"""A run as it goes: a live panel on a terminal, else a plain line now and then."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TextIO

from gym_core.cli.terminal import counted, duration, money, printable, tell
from gym_core.types.run import ActiveRollout, RunProgress, RunState

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_EVERY_S = 10.0
"""Where something changed."""
SIGN_OF_LIFE_EVERY_S = 60.0
"""Where nothing did, but for time."""
SHOWN_IN_PANEL = 8
SHOWN_IN_LINE = 2
STAGES = {
    "plan": "starting",
    "seed": "making its sandbox",
    "open": "opening its session",
    "respond": "agent playing",
    "verify": "being graded",
}
"""What an episode's stage is to people."""


class Display(Protocol):
    def update(self, progress: RunProgress) -> None: ...

    def note(self, line: str) -> None:
        """A line that stays, above what moves."""
        ...

    def close(self) -> None: ...


def make_display(stream: TextIO) -> Display:
    return LiveDisplay(stream) if stream.isatty() else PlainDisplay()


def progress_line(progress: RunProgress) -> str:
    """The state of a run in one line."""
    if progress.state is RunState.STARTING and not progress.total:
        return printable(f"starting; {progress.message}" if progress.message else "starting")
    done = f"{progress.done}/{progress.total} done"
    if progress.resumed:
        done += f" ({progress.resumed} before)"
    parts = [done, f"{slots_text(progress)} running", f"{progress.masked} masked"]
    if progress.retries:
        parts.append(counted(progress.retries, "retry"))
    parts.append(f"reward {reward_text(progress)}")
    if progress.rollouts_per_s > 0:
        parts.append(rate_text(progress.rollouts_per_s))
    if progress.remaining_s is not None and progress.state is RunState.RUNNING:
        parts.append(f"{duration(progress.remaining_s)} left")
    if cost := cost_text(progress):
        parts.append(cost)
    if progress.failures:
        parts.append(failures_text(progress.failures))
    line = ", ".join(parts)
    if progress.state is not RunState.RUNNING:
        line = f"{progress.state}: {line}"
    return printable(f"{line}; {progress.message}" if progress.message else line)


def slots_text(progress: RunProgress) -> str:
    """ "3/8": how many run, of how many that may."""
    return f"{progress.running}/{progress.slots}" if progress.slots else f"{progress.running}"


def cost_text(progress: RunProgress) -> str:
    """ "" when it is not known."""
    spend = progress.spend
    return "" if spend is None or spend.cost is None or spend.currency is None else money(spend.cost, spend.currency)


def tokens_text(progress: RunProgress) -> str:
    spend = progress.spend
    if spend is None:
        return "none yet"
    tokens = spend.policy + spend.judge
    return f"{tokens.input:,} in, {tokens.output:,} out"


def slow_text(progress: RunProgress) -> str:
    """The longest played rollouts in a few words; "" when none is played."""
    shown = [
        f"{name_of(active)} {stage_text(active)} for {duration(active.stage_s)}"
        for active in progress.active[:SHOWN_IN_LINE]
    ]
    return printable("; ".join(shown))


def name_of(active: ActiveRollout) -> str:
    """ "task 17" with what its dataset calls it, and which repeat where it is not the first."""
    name = f"task {active.task_index}"
    if active.task_id != str(active.task_index):
        name += f" ({printable(active.task_id, max_characters=40)})"
    return f"{name} repeat {active.repeat + 1}" if active.repeat else name


def stage_text(active: ActiveRollout) -> str:
    text = STAGES.get(active.stage, printable(active.stage, max_characters=20))
    return text if active.calls is None else f"{text}, {counted(active.calls, 'model call')}"


def reward_text(progress: RunProgress) -> str:
    if progress.mean_reward is None:
        return "not measured yet"
    if progress.ci_low_95 is None or progress.ci_high_95 is None:
        return f"{progress.mean_reward:.3f}"
    return f"{progress.mean_reward:.3f} [{progress.ci_low_95:.3f}, {progress.ci_high_95:.3f}]"


def rate_text(rollouts_per_s: float) -> str:
    """Per second when that is a number one can read, else per minute or hour."""
    for factor, unit in ((1, "s"), (60, "min")):
        if rollouts_per_s * factor >= 1:
            return f"{rollouts_per_s * factor:.1f}/{unit}"
    return f"{rollouts_per_s * 3600:.1f}/h"


def failures_text(failures: dict[str, int]) -> str:
    """Most frequent first."""
    return ", ".join(
        f"{printable(kind)} {count}" for kind, count in sorted(failures.items(), key=lambda item: -item[1])
    )


class PlainDisplay:
    """A line at each change of state, at most every ten seconds one with what else changed, and every minute one with
    what the slowest are doing when nothing else did."""

    def __init__(self, write: Callable[[str], None] = tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._shown: RunProgress | None = None
        self._shown_at = 0.0

    def update(self, progress: RunProgress) -> None:
        now = self._clock()
        if self._shown is not None and self._shown.state is progress.state:
            has_news = (progress.done, progress.masked, progress.failures) != (
                self._shown.done,
                self._shown.masked,
                self._shown.failures,
            )
            if now - self._shown_at < (LINE_EVERY_S if has_news else SIGN_OF_LIFE_EVERY_S):
                return
            if not has_news and progress.active:
                self._shown_at = now
                self._write(f"{progress_line(progress)}; {slow_text(progress)}")
                return
        self._shown, self._shown_at = progress, now
        self._write(progress_line(progress))

    def note(self, line: str) -> None:
        self._write(printable(line))

    def close(self) -> None:
        """Nothing to put away."""


class LiveDisplay:
    """A panel that is redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)
        self._is_started = False

    def update(self, progress: RunProgress) -> None:
        if not self._is_started:
            self._live.start()
            self._is_started = True
        self._live.update(panel(progress))

    def note(self, line: str) -> None:
        self._console.print(printable(line))

    def close(self) -> None:
        if self._is_started:
            self._live.stop()


def panel(progress: RunProgress) -> "RenderableType":
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    figures = Table.grid(padding=(0, 3))
    for name, text, other_name, other_text in _figures(progress):
        figures.add_row(name, text, other_name, other_text)
    bar = Table.grid()
    bar.add_row(ProgressBar(total=max(progress.total, 1), completed=progress.done, width=60))
    parts: list[RenderableType] = [bar, figures]
    if progress.active:
        slow = Table.grid(padding=(0, 3))
        for cells in slow_rows(progress):
            slow.add_row(*map(Text, cells))  # Text: nothing of it is markup
        parts.append(slow)
    if progress.message:
        parts.append(Text(printable(progress.message)))
    return Group(*parts)


def slow_rows(progress: RunProgress) -> list[tuple[str, ...]]:
    """The longest played rollouts: which, what it does, for how long, how long in all."""
    rows: list[tuple[str, ...]] = [("slowest", "doing", "for", "in all")]
    for active in progress.active[:SHOWN_IN_PANEL]:
        again = f", attempt {active.attempt + 1}" if active.attempt else ""
        rows.append((name_of(active) + again, stage_text(active), duration(active.stage_s), duration(active.total_s)))
    hidden = progress.running - (len(rows) - 1)
    return [*rows, (f"and {hidden} more", "", "", "")] if hidden > 0 else rows


def _figures(progress: RunProgress) -> Iterator[tuple[str, str, str, str]]:
    resumed = f" ({progress.resumed} before)" if progress.resumed else ""
    left = duration(progress.remaining_s) if progress.remaining_s is not None else "unknown"
    rate = rate_text(progress.rollouts_per_s) if progress.rollouts_per_s > 0 else "none yet"
    masked = f"{progress.masked}, {counted(progress.retries, 'retry')}"
    yield "state", f"{progress.state}", "done", f"{progress.done}/{progress.total}{resumed}"
    yield "running", f"{slots_text(progress)} slots", "masked", masked
    yield "rate", rate, "left", f"{left}, {duration(progress.elapsed_s)} so far"
    yield "reward", reward_text(progress), "failures", failures_text(progress.failures) or "none"
    yield "tokens", tokens_text(progress), "cost", cost_text(progress) or "not known"
