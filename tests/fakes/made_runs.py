"""Runs that readers of runs are tested on: a large one, one long rollout, an uneven one, a pair, a growing one."""

import io
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from gym_core.errors import FailureKind
from gym_core.rollout.sink import encode_line
from gym_core.types.flat_row import flat_from_record
from tests.fakes.made_run import MadeRollout, MadeRun, MadeTask
from tests.fakes.made_sessions import MadeTurn

CATEGORIES = (
    ("Fine-grained Discrimination", "Find the different"),
    ("Fine-grained Discrimination", "Count Clusters"),
    ("Visual Tracking", "Maze"),
    ("Visual Tracking", "Connect the lines"),
    ("Visual Pattern Recognition", "Rotation Patterns"),
    ("Spatial Perception", "3D Views"),
)
_COLOURS = ("#c0392b", "#2471a3", "#239b56", "#b7950b", "#7d3c98", "#ba4a00", "#117864", "#5d6d7e")


@cache
def made_picture(seed: int, width: int = 320, height: int = 240, *, has_grain: bool = False) -> bytes:
    """A PNG whose pixels follow from `seed`; with grain it takes about a byte a pixel, as photographs do."""
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    for n in range(24):
        x, y = (seed * 71 + n * 137) % width, (seed * 53 + n * 89) % height
        draw.ellipse((x - 16, y - 16, x + 16, y + 16), fill=_COLOURS[(seed + n) % len(_COLOURS)])
    draw.text((6, 6), f"#{seed}", fill="black")
    if has_grain:
        grain = np.random.default_rng(seed).integers(0, 8, (height, width, 3), dtype=np.uint8)
        image = Image.fromarray(np.asarray(image) // 2 + grain + 64)
    content = io.BytesIO()
    image.save(content, "PNG", compress_level=1)
    return content.getvalue()


def made_task(index: int) -> MadeTask:
    category, subtype = CATEGORIES[index % len(CATEGORIES)]
    return MadeTask(
        question=f"Puzzle {index}: how many dots of the rarest colour are in the picture?",
        gold=str(index % 9 + 1),
        picture=made_picture(index % 50),
        category=category,
        subtype=subtype,
        task_id=str(1000 + index),
    )


def made_turns(index: int, n_turns: int, *, n_pictures: int = 1, answer: str = "3") -> list[MadeTurn]:
    """Programs and looks at what they drew, then the answer. Pictures come as early as they can."""
    turns = [
        _look(index, number) if number % 2 and number // 2 < n_pictures else _measure(index, number)
        for number in range(n_turns - 1)
    ]
    return [*turns, MadeTurn(text=f"I measured it twice.\n\n\\boxed{{{answer}}}", call_s=0.8)]


def _measure(index: int, number: int) -> MadeTurn:
    box = f"({number * 5}, {index % 40}, 200, 180)"
    program = "python3 - <<'END'\nfrom PIL import Image\nimage = Image.open('/workspace/image.png')\n"
    program += f"crop = image.crop({box})\ncrop.save('/workspace/crop{number}.png')\nEND"
    return MadeTurn(
        text=f"Step {number}: I cut out the part that matters and measure it.",
        reasoning=f"The dots near ({number * 5}, {index % 40}) overlap, so a crop helps." if number % 3 == 0 else "",
        tool="bash",
        arguments={"command": program, "description": f"Measure part {number}"},
        output="".join(f"row {n:03d}: {(index * 31 + number * 17 + n * 7) % 255:3d} dark pixels\n" for n in range(12)),
        call_s=0.6 + number % 5 / 4,
        tool_s=0.2 + number % 3 / 2,
    )


def _look(index: int, number: int) -> MadeTurn:
    return MadeTurn(
        text="I look at the crop.",
        tool="read",
        arguments={"filePath": f"/workspace/crop{number - 1}.png"},
        output="Image read successfully",
        pictures=[made_picture(1000 + index * 100 + number, 240, 180)],
        call_s=0.5,
        tool_s=0.1,
    )


def made_rollout(index: int, repeat: int = 0, *, n_turns: int = 6, is_right: bool = True) -> MadeRollout:
    task = made_task(index)
    answer = task.gold if is_right else str(int(task.gold) + 1)
    turns = made_turns(index, n_turns, answer=answer)
    return MadeRollout(task, turns, index=index, repeat=repeat, answer=answer, reward=float(is_right))


def write_small_run(folder: Path, name: str = "small", *, n_tasks: int = 12) -> MadeRun:
    """One repeat, two of three right."""
    rollouts = [made_rollout(index, is_right=index % 3 != 2) for index in range(n_tasks)]
    return _written(MadeRun(folder, name), rollouts)


def write_large_run(folder: Path, *, n_tasks: int = 250, repeats: int = 4, n_turns: int = 60) -> MadeRun:
    """A thousand rollouts of sixty turns."""
    turns = {task: made_turns(task, n_turns, answer=made_task(task).gold) for task in range(n_tasks)}
    rollouts = [
        MadeRollout(
            made_task(task),
            turns[task],
            index=task,
            repeat=repeat,
            answer=made_task(task).gold,
            reward=float((task * 7 + repeat * 3) % 5 > 1),
        )
        for repeat in range(repeats)
        for task in range(n_tasks)
    ]
    return _written(MadeRun(folder, "large"), rollouts)


def write_long_rollout(folder: Path, *, n_turns: int = 60, n_pictures: int = 40) -> MadeRun:
    """One rollout with token ids, two drifts among them; the pictures are spread over its turns."""
    turns = [
        replace(turn, pictures=[made_picture(5000 + n, 640, 480, has_grain=True)] if n < n_pictures else [])
        for n, turn in enumerate(made_turns(1, n_turns, n_pictures=0))
    ]
    rollout = MadeRollout(
        made_task(1), turns, index=1, answer="3", reward=0.0, has_token_ids=True, drifts_at=frozenset({20, 41}),
        shaping={"tool_use": 0.25, "too_long": -0.125},
    )  # fmt: skip
    return _written(MadeRun(folder, "long"), [rollout])


def write_uneven_run(folder: Path) -> MadeRun:
    """Eight tasks of three repeats, of which some are masked, some scored zero by a failure, and some missing.

    Of task 0 all three are measured, of 1 and 2 fewer; 3 is masked altogether, and nothing is there of 7.
    """
    failures = {
        (1, 2): FailureKind.SANDBOX_LOST,
        (2, 0): FailureKind.JUDGE_FAILED,
        (3, 0): FailureKind.MODEL_UNAVAILABLE,
        (3, 1): FailureKind.MODEL_UNAVAILABLE,
        (3, 2): FailureKind.INTERNAL,
        (4, 0): FailureKind.AGENT_TIMEOUT,
        (4, 1): FailureKind.NO_FINAL_ANSWER,
        (5, 2): FailureKind.CONTEXT_LIMIT,
    }
    missing = {(2, 2), (6, 1), (6, 2), (7, 0), (7, 1), (7, 2)}
    planned = [
        replace(
            made_rollout(task, repeat, is_right=(task + repeat) % 3 != 1),
            failure=failures.get((task, repeat)),
            reason=f"what became of task {task}, repeat {repeat}",
            measures={"look_calls": float(task)} | ({"roi_recall": 0.25 * repeat} if task < 2 else {}),
        )
        for task in range(8)
        for repeat in range(3)
    ]
    run = MadeRun(folder, "uneven")
    run.plan(planned)
    broken = replace(made_rollout(0, 0), failure=FailureKind.SANDBOX_ERROR, reason="the sandbox did not start")
    run.write_broken([broken])
    again = [replace(made, attempt=1) if (made.index, made.repeat) == (0, 0) else made for made in planned]
    run.write([made for made in again if (made.index, made.repeat) not in missing])
    run.finish()
    return run


def write_pair(folder: Path, *, n_tasks: int = 20) -> tuple[MadeRun, MadeRun]:
    """The same tasks twice, with another judge; the second lacks the last task, loses task 0 and wins 2, 5 and 8."""
    first = write_small_run(folder, "first", n_tasks=n_tasks)
    identity = {"gym": "0.1.0", "servers": {"judge": {"model": "another-judge"}}}
    second = MadeRun(folder, "second", identity=identity)
    won = {2, 5, 8}
    rollouts = [made_rollout(n, is_right=n in won or (n % 3 != 2 and n != 0)) for n in range(n_tasks - 1)]
    return first, _written(second, rollouts)


@contextmanager
def growing_run(folder: Path, *, n_first: int = 3, n_tasks: int = 24, pause_s: float = 0.05) -> Iterator["GrowingRun"]:
    """A run that is still written: a few rollouts are finished, one is played, and the others come when told."""
    run = MadeRun(folder, "growing", started_at=time.time())
    rollouts = [made_rollout(index, is_right=index % 2 == 0) for index in range(n_tasks)]
    run.plan(rollouts)
    run.write(rollouts[:n_first])
    growing = GrowingRun(run, rollouts[n_first:], pause_s)
    try:
        yield growing
    finally:
        growing.end()


class GrowingRun:
    """Each rollout is first calls without a line, then half a line, then a whole one."""

    def __init__(self, run: MadeRun, rest: Sequence[MadeRollout], pause_s: float) -> None:
        self.run = run
        self.rest = list(rest)
        self._pause_s = pause_s
        self._open = ExitStack()
        self._open.enter_context(run.opened())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._grow, daemon=True)

    def grow(self) -> None:
        """In the background, to the end."""
        self._thread.start()

    def begin(self, n_calls: int = 2) -> MadeRollout:
        """The next one, so far."""
        self.run.begin(self.rest[0], n_calls)
        return self.rest[0]

    def add(self, n: int = 1) -> None:
        """Here and now."""
        for _ in range(n):
            line = encode_line(flat_from_record(self.run.record(self.rest.pop(0))))
            for part in (line[: len(line) // 2], line[len(line) // 2 :]):
                with self.run.path.open("ab") as file:
                    file.write(part)
                self._stopped.wait(self._pause_s)

    def end(self) -> None:
        """Whatever is left: nobody writes to the run any more."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._open.close()

    def _grow(self) -> None:
        while self.rest and not self._stopped.is_set():
            self.add()


def _written(run: MadeRun, rollouts: Sequence[MadeRollout]) -> MadeRun:
    run.plan(rollouts)
    run.write(rollouts)
    run.finish()
    return run
