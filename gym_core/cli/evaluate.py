"""An evaluation: planned and made ready, then started over REST, followed and stopped."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gym_core.cli.display import Display
from gym_core.cli.launcher import OpenGym
from gym_core.cli.prepare import ensure_prepared
from gym_core.cli.readiness import ensure_toolkit
from gym_core.cli.selection import Selection, check_composed
from gym_core.cli.terminal import printable
from gym_core.errors import ConfigError, EpisodeError, FailureKind, TransportError
from gym_core.types.run import RunOptions, RunResult, RunState

if TYPE_CHECKING:
    from gym_core.config.blocks import CheckedConfig
    from gym_core.config.datasets import SelectedDataset

REASON_GRACE_S = 3.0
"""After the event stream broke: how long the reason, the end of the head server, may take to be known."""
REFUSED = 2
"""Exit code of a run that was not begun, for something that the user can mend."""
RESUME = "the same command goes on from here"


@dataclass(frozen=True)
class Evaluation:
    """One run, checked and ready to start."""

    checked: "CheckedConfig"
    options: RunOptions
    datasets: "list[SelectedDataset]"


def plan_evaluation(selection: Selection) -> Evaluation:
    """Raises ConfigError with every mistake."""
    from gym_core.config.datasets import select_datasets
    from gym_core.config.resolve import NO_OUTPUT, read_run_options

    composed = selection.compose()
    output = composed.values.get("output_jsonl_fpath")
    wrong_output = _output_problems(output) if output else [NO_OUTPUT]
    try:
        checked = check_composed(composed)
    except ConfigError as error:
        raise ConfigError([*error.problems, *wrong_output]) from None
    if wrong_output:
        raise ConfigError(wrong_output)
    options = read_run_options(checked.run)
    if options.saved_run is not None:
        return Evaluation(checked, options, [])
    datasets = select_datasets(checked.run.environments, composed, split=options.split, environment=options.environment)
    return Evaluation(checked, options, datasets)


def _output_problems(output: object) -> list[str]:
    from gym_core.rollout.output import check_output_path

    if not isinstance(output, str):
        return []  # the options' own class refuses it
    try:
        check_output_path(Path(output).expanduser().absolute())
    except ConfigError as error:
        return error.problems
    return []


def make_ready(evaluation: Evaluation) -> None:
    for selected in evaluation.datasets:
        ensure_prepared(selected, reuse=evaluation.checked.run.launch.reuse_existing_data_preparation)
    ensure_toolkit(evaluation.checked)


def dry_run_lines(evaluation: Evaluation) -> list[str]:
    """What the run would do, and what its rest takes where rollouts tell. Raises ConfigError, as the run would."""
    return ["dry run: the configuration is right; this would run", *plan_lines(evaluation, with_estimate=True)]


def plan_lines(evaluation: Evaluation, *, with_estimate: bool = False) -> list[str]:
    from gym_core.cli.preview import estimate_lines, preview_lines
    from gym_core.launch.preview import preview_run

    saved, output = evaluation.options.saved_run, evaluation.options.output_jsonl_fpath
    if saved is not None:  # its rows say what there is to do
        return [f"  {saved.kind} of {printable(saved.path)} into {printable(output)}"]
    preview = preview_run(evaluation.checked, evaluation.options)
    estimate = preview.estimate if with_estimate else None
    return [*preview_lines(preview), *(estimate_lines(estimate, parallel=preview.parallel) if estimate else [])]


async def evaluate(
    evaluation: Evaluation,
    display: Display,
    *,
    opener: Callable[["CheckedConfig"], AbstractAsyncContextManager[OpenGym]],
) -> RunResult:
    """Raises EpisodeError when the gym could not start or died, CancelledError for Ctrl-C before the run began."""
    try:
        interrupts = Interrupts(display)
        interrupts.handle_ctrl_c()
        async with opener(evaluation.checked) as gym:
            run_id = await _started(gym, evaluation.options)
            with interrupts.of_run(gym, run_id):
                return await follow(gym, run_id, display)
    finally:
        display.close()


async def _started(gym: OpenGym, options: RunOptions) -> str:
    try:
        return await gym.runs.start_run(options)
    except ValueError as error:  # the head server's own look at the options
        raise ConfigError(str(error)) from error


async def follow(gym: OpenGym, run_id: str, display: Display) -> RunResult:
    """Show the run's progress until its end. Raises EpisodeError when the gym dies first."""
    reading = asyncio.create_task(_read_to_the_end(gym, run_id, display), name=f"follow-{run_id}")
    either: set[asyncio.Future[RunResult] | asyncio.Future[str]] = {reading, gym.died}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            broke = reading.exception()
            if not isinstance(broke, TransportError):
                return reading.result()
            await asyncio.wait({gym.died}, timeout=REASON_GRACE_S)
            if not gym.died.done():
                raise broke
        raise EpisodeError(f"{gym.died.result()}\nno finished rollout is lost: {RESUME}", kind=FailureKind.SHUTDOWN)
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def _read_to_the_end(gym: OpenGym, run_id: str, display: Display) -> RunResult:
    async for event in gym.runs.watch(run_id):
        if isinstance(event, RunResult):
            return event
        display.update(event)
    raise TransportError(f"the events of run {run_id!r} ended without its result")


class Interrupts:
    """Ctrl-C while a run goes: the first lets what runs finish, the second stops it. SIGTERM stops it at once.

    Before the run began the first ends the command. Any more change nothing: what was started is put away in peace.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self._run: tuple[OpenGym, str] | None = None
        self._is_ending = False
        self._presses = 0
        self._requests: set[asyncio.Task[None]] = set()

    def handle_ctrl_c(self) -> None:
        """From here to the end of the loop; the task that calls this is the one that it ends."""
        task = asyncio.current_task()
        assert task is not None  # a coroutine calls
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.interrupt, task)

    @contextlib.contextmanager
    def of_run(self, gym: OpenGym, run_id: str) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        self._run = (gym, run_id)
        loop.add_signal_handler(signal.SIGTERM, self.terminate)
        try:
            yield
        finally:
            self._is_ending = True
            loop.remove_signal_handler(signal.SIGTERM)

    def interrupt(self, command: "asyncio.Task[object]") -> None:
        if self._is_ending:
            return
        if self._run is None:
            self._is_ending = True
            command.cancel()
            return
        self._presses += 1
        if self._presses == 1:
            self._display.note(f"stopping after what runs now (Ctrl-C again stops it too); {RESUME}")
            self._request(drain=True)
        elif self._presses == 2:
            self.terminate()

    def terminate(self) -> None:
        self._display.note(f"stopping at once; finished rollouts are kept, {RESUME}")
        self._request(drain=False)

    def _request(self, *, drain: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._cancel(drain=drain), name="cancel-run")
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _cancel(self, *, drain: bool) -> None:
        assert self._run is not None  # there is nothing to cancel before
        gym, run_id = self._run
        try:
            await gym.runs.cancel(run_id, drain=drain)
        except EpisodeError as error:
            self._display.note(f"the head server did not take the cancellation: {error}")


def exit_code(result: RunResult, options: RunOptions) -> int:
    """0 done, 1 failed or more masked than allowed, 2 refused, 130 cancelled."""
    progress = result.progress
    if progress.is_refused:
        return REFUSED
    if progress.state is RunState.CANCELLED:
        return 130
    if progress.state is not RunState.DONE:
        return 1
    return 1 if progress.masked > options.max_masked_fraction * progress.total else 0
