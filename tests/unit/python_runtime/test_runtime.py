"""The runtime with real processes beside the test, and with a sandbox that fails."""

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image

from gym_core.errors import SandboxError, SandboxLost
from gym_core.sandbox.contract import ExecResult, Launch, OnOutput, SandboxSpec
from gym_core.servers.python_runtime import Execution, PythonRuntime, RuntimeSettings, Setup
from gym_core.servers.python_runtime.client import born, status
from gym_core.servers.python_runtime.runtime import MAX_CODE_BYTES, START_LIMIT_S
from tests.fakes.clock import FastClock
from tests.fakes.process_sandbox import ProcessSandbox
from tests.fakes.sandbox import FakeSandbox

SETUP = Setup({"clue.txt": b"a clue"}, "clue = open(FOLDER + '/clue.txt').read()")
ORDINARY, SHORT = RuntimeSettings(), RuntimeSettings(timeout_s=0.3)


@pytest.fixture
async def sandbox(tmp_path: Path) -> ProcessSandbox:
    return ProcessSandbox(tmp_path)


@pytest.fixture
async def python(sandbox: ProcessSandbox) -> AsyncIterator[PythonRuntime]:
    runtime = runtime_in(sandbox)
    yield runtime
    await runtime.close()


def runtime_in(sandbox: ProcessSandbox, settings: RuntimeSettings = ORDINARY) -> PythonRuntime:
    return PythonRuntime(sandbox, settings, SETUP, folder=str(sandbox.folder / "r"))


def sizes(execution: Execution) -> list[tuple[int, int]]:
    return [Image.open(io.BytesIO(image)).size for image in execution.images]


async def test_variables_stay_and_the_setup_is_there(python: PythonRuntime) -> None:
    first = await python.run("x = 20\nprint(clue)")
    second = await python.run("print(x + 1)\nprint(__name__)")
    assert (first.outcome, first.text, first.restarted) == ("ok", "a clue\n", False)
    assert (second.text, second.images, second.notes) == ("21\n__main__\n", [], [])


async def test_what_raises_comes_with_the_end_of_its_traceback_and_goes_on(python: PythonRuntime) -> None:
    raised = await python.run("x = 1\nprint('before')\nx / 0")
    assert raised.outcome == "raised"
    assert raised.text == (
        'before\nTraceback (most recent call last):\n  File "<code 1>", line 3, in <module>\n    x / 0\n'
        "    ~~^~~\nZeroDivisionError: division by zero\n"
    )
    assert (await python.run("x")).outcome == "ok"
    assert "SyntaxError: '(' was never closed" in (await python.run("print(1")).text


async def test_both_streams_and_those_of_children_come_in_order(python: PythonRuntime) -> None:
    code = "import sys, subprocess\nprint('a')\nprint('b', file=sys.stderr)\nsubprocess.run(['echo', 'c'])\nprint('d')"
    assert (await python.run(code)).text == "a\nb\nc\nd\n"


async def test_pictures_come_in_the_order_in_which_they_were_shown(python: PythonRuntime) -> None:
    shown = await python.run(
        "from PIL import Image\nimport numpy as np\n"
        "Image.new('RGB', (3, 2)).show()\n"
        "display(Image.new('L', (4, 2)), np.zeros((2, 5, 3), np.uint8), 'words')\n"
        "from IPython.display import display as other\nother(Image.new('P', (6, 2)))\n"
        "Image.new('CMYK', (7, 2))"
    )
    assert (shown.text, sizes(shown)) == ("words\n", [(3, 2), (4, 2), (5, 2), (6, 2), (7, 2)])


async def test_an_opencv_window_is_shown_in_its_true_colours(python: PythonRuntime) -> None:
    code = "import cv2\nimport numpy as np\nblue = np.zeros((2, 2, 3), np.uint8)\nblue[:, :, 0] = 255\n"
    shown = await python.run(code + "cv2.imshow('window', blue)\ncv2.waitKey(0)\ncv2.destroyAllWindows()")
    assert (shown.outcome, shown.text) == ("ok", "")
    assert Image.open(io.BytesIO(shown.images[0])).getpixel((0, 0)) == (0, 0, 255)


async def test_pictures_have_bounds_in_number_pixels_and_shape(sandbox: ProcessSandbox) -> None:
    settings = RuntimeSettings(max_images=2, max_image_pixels=10_000, max_aspect_ratio=10)
    python = runtime_in(sandbox, settings)
    bounded = await python.run(
        "from PIL import Image\n"
        "Image.new('L', (400, 100)).show()\nImage.new('L', (1000, 10)).show()\n"
        "for _ in range(5): Image.new('L', (9, 9)).show()"
    )
    await python.close()
    assert sizes(bounded) == [(200, 50)]
    assert bounded.notes == [
        "a picture of 400x100 pixels is shown at 200x50",
        "a picture of 1000x10 pixels is not shown: one side is 100 times the other, at most 10 are allowed",
        "only the first 2 of 7 pictures are kept",
    ]


async def test_a_flood_keeps_its_beginning_and_its_end(sandbox: ProcessSandbox) -> None:
    python = runtime_in(sandbox, RuntimeSettings(max_output_chars=200))
    flood = await python.run("print('first')\nfor _ in range(30): print('x' * 100_000)\nprint('last')")
    await python.close()
    assert flood.text.startswith("first\nxxx")
    assert flood.text.endswith("xxx\nlast\n")
    assert len(flood.text) < 300
    assert flood.notes == ["the output was longer than 200 characters, and is cut"]


async def test_past_its_time_the_process_is_killed_and_a_new_one_has_the_setup_again(sandbox: ProcessSandbox) -> None:
    python = runtime_in(sandbox, SHORT)
    late = await python.run("x = 1\nclue = 'spoiled'\nprint('so far')\nwhile True: pass")
    after = await python.run("print(clue, 'x' in globals())")
    await python.close()
    assert (late.outcome, late.text, late.restarted) == ("timed_out", "so far\n", True)
    assert late.notes[0] == "the code did not end within 0.3 seconds, so its process was killed"
    assert "variables are gone" in late.notes[1]
    assert (after.outcome, after.text, after.restarted) == ("ok", "a clue False\n", False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import os; os.kill(os.getpid(), 9)",
        "import os; os.closerange(3, 1000)",
        "import os\nfor fd in range(3, 30):\n  try: os.write(fd, b'garbage' * 9)\n  except OSError: pass",
        "import os, threading, time; threading.Thread(target=os._exit, args=[1]).start(); time.sleep(5)",
    ],
)
async def test_code_that_breaks_its_process_is_told_so_and_the_next_has_a_new_one(
    python: PythonRuntime, code: str
) -> None:
    died = await python.run(code)
    assert (died.outcome, died.restarted) == ("died", True)
    assert died.notes[0] == "the Python process ended while the code ran"
    assert (await python.run("print(clue)")).text == "a clue\n"


async def test_a_process_that_ended_between_two_pieces_of_code_runs_neither_twice(python: PythonRuntime) -> None:
    await python.run("import os, threading; threading.Timer(0.02, os._exit, [0]).start()")
    await asyncio.sleep(0.1)
    lost = await python.run("open('ran', 'w')")
    assert (lost.outcome, lost.restarted) == ("not_run", True)
    assert (await python.run("import os; print(os.listdir())")).text == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import builtins, json, sys\nbuiltins.len = builtins.open = builtins.print = json.dumps = sys.stdout = None",
        "import os; [os.close(fd) for fd in (0, 1, 2)]",
        "import sys; sys.stdout.close(); sys.stderr = 3",
        "import os; os.fork()",
        "import sys; sys.exit(3)",
        "import socket; socket.setdefaulttimeout(0.01); socket.socket.recv = socket.socket.sendall = None",
        "import os, traceback; os.write = os.dup2 = traceback.format_exception = None; 1/0",
        "class E(Exception):\n  def __str__(self): 1/0\nraise E",
        "from signal import *\nsignal(SIGALRM, lambda *_: 1/0); setitimer(ITIMER_REAL, 0.001, 0.001)",
    ],
)
async def test_code_that_takes_its_own_tools_apart_keeps_its_process(python: PythonRuntime, code: str) -> None:
    broken = await python.run("x = 7\n" + code)
    assert (broken.outcome in ("ok", "raised"), broken.restarted) == (True, False)
    assert (await python.run("import sys; sys.stdout.write(f'{x}\\n')")).text == "7\n"


async def test_what_code_left_running_writes_nothing_into_later_results(python: PythonRuntime) -> None:
    late = "while sleep 0.01; do echo late; done"
    code = f"import subprocess\nsubprocess.Popen({late!r}, shell=True, start_new_session=True)"
    assert (await python.run(code)).outcome == "ok"
    assert (await python.run("import time; time.sleep(0.1); print('mine')")).text == "mine\n"


async def test_closing_ends_what_the_code_started_whatever_session_it_is_in(sandbox: ProcessSandbox) -> None:
    python = runtime_in(sandbox)
    code = "import subprocess\np = subprocess.Popen(['sleep', '60'], env={}, start_new_session=True)\nprint(p.pid)"
    pid = int((await python.run(code)).text)
    assert born(pid)
    await python.close()
    await python.close()
    assert status(pid)[:1] in ([], ["Z"])


async def test_code_that_is_empty_runs_however_often(python: PythonRuntime) -> None:
    for code in ["x = 1", *[""] * 8]:
        assert (await python.run(code)).outcome == "ok"
    assert (await python.run("print(x)")).text == "1\n"


async def test_bytes_that_are_no_text_and_colours_come_as_text(python: PythonRuntime) -> None:
    code = "import os; os.write(1, b'\\xff \\x1b[31mred\\x1b[0m\\n'); print('\\ud800')"
    assert (await python.run(code)).text == "\ufffd red\n\\ud800\n"


async def test_code_that_is_too_long_is_not_run(python: PythonRuntime, sandbox: ProcessSandbox) -> None:
    refused = await python.run("#" * MAX_CODE_BYTES + "!")
    assert (refused.outcome, refused.restarted, sandbox.launches) == ("not_run", False, [])
    assert (await python.run("#" * (MAX_CODE_BYTES - 10) + "\nprint(5)")).text == "5\n"


async def test_a_prelude_that_fails_is_a_bug_of_ours(sandbox: ProcessSandbox) -> None:
    python = PythonRuntime(sandbox, SHORT, Setup(prelude="clue = missing"), folder=str(sandbox.folder / "r"))
    with pytest.raises(RuntimeError, match=r"does not start: raised: [\s\S]*NameError: name 'missing' is not defined"):
        await python.run("print(1)")
    await python.close()


async def test_what_worked_once_and_fails_later_is_the_codes_doing(python: PythonRuntime) -> None:
    await python.run("import os; os.remove(FOLDER + '/clue.txt'); os.mkdir(FOLDER + '/clue.txt'); os._exit(0)")
    lost = await python.run("print(1)")
    assert (lost.outcome, lost.restarted, len(lost.notes)) == ("not_run", True, 1)
    assert lost.notes[0].startswith("no new Python process could be started, so this code was not run: ")


def test_a_file_of_a_setup_has_a_plain_name() -> None:
    for name in ("../a", "a/b", "", ".hidden", "a b"):
        with pytest.raises(ValueError, match="make its name"):
            Setup({name: b""})


# -- a sandbox that fails ---------------------------------------------------


STARTED = (
    b'{"outcome": "ok", "head": "", "tail": "", "dropped_bytes": 0, "images": [], "notes": [], "is_over": false, '
    b'"life": {"token": "t", "leader": 5, "born": 6}}'
)


def failing_at(turn: int, error: Exception) -> tuple[FakeSandbox, PythonRuntime]:
    """A sandbox whose command number `turn` fails, the start being number 0."""
    sandbox = FakeSandbox("box", SandboxSpec())

    def run(launch: Launch, box: FakeSandbox) -> ExecResult:
        if len(box.launches) == turn + 1:
            raise error
        return ExecResult(exit_code=0, stdout=STARTED)

    sandbox.on_exec(run)
    return sandbox, PythonRuntime(sandbox, RuntimeSettings(), Setup())


def operation(launch: Launch) -> str:
    request = base64.b64decode("".join(launch.argv[5:]))
    return str(json.loads(request)["op"])


async def test_a_sandbox_without_a_process_to_be_had_is_ours_until_code_has_run() -> None:
    fresh, python = failing_at(0, SandboxError("unused"))
    fresh.on_exec(failing)
    clock = FastClock()
    with pytest.raises(SandboxError, match="no process to be had"):
        await clock.run(python.run("print(1)"), within_s=30)
    fresh.on_exec(lambda launch, box: ExecResult(exit_code=0, stdout=STARTED))
    await python.run("while os.fork() >= 0: pass")
    fresh.on_exec(failing)
    died = await python.run("print(1)")
    lost = await clock.run(python.run("print(1)"), within_s=30)
    assert (died.outcome, lost.outcome, lost.restarted) == ("died", "not_run", True)
    assert lost.notes == ["no new Python process could be started, so this code was not run: no process to be had"]


def failing(launch: Launch, box: FakeSandbox) -> ExecResult:
    raise SandboxError("no process to be had")


class CrowdedSandbox(FakeSandbox):
    """Takes no file while what the last code left still runs."""

    is_crowded = False

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        if self.is_crowded:
            raise SandboxError("no process to be had")
        await super().write(path, content, mode)


async def test_what_code_left_is_ended_before_the_files_are_written() -> None:
    sandbox = CrowdedSandbox("box", SandboxSpec())

    def run(launch: Launch, box: FakeSandbox) -> ExecResult:
        sandbox.is_crowded = operation(launch) == "run"
        if sandbox.is_crowded:
            raise SandboxError("the client had no time left")
        return ExecResult(exit_code=0, stdout=STARTED)

    sandbox.on_exec(run)
    python = PythonRuntime(sandbox, RuntimeSettings(), SETUP)
    assert (await python.run("bomb")).outcome == "died"
    assert (await python.run("print(1)")).outcome == "died"
    assert [operation(launch) for launch in sandbox.launches] == ["start", "run", "stop", "start", "run"]


async def test_a_start_that_hangs_is_given_up_and_is_the_codes_doing() -> None:
    sandbox, python = failing_at(1, SandboxError("killed"))
    await python.run("bomb")
    sandbox.on_exec(lambda launch, box: asyncio.sleep(9999, ExecResult(exit_code=0)))
    began = asyncio.get_running_loop().time()
    lost = await FastClock().run(python.run("print(1)"), within_s=2 * START_LIMIT_S)
    assert (lost.outcome, lost.restarted) == ("not_run", True)
    assert asyncio.get_running_loop().time() - began < START_LIMIT_S + 5


async def test_a_client_that_outlived_the_codes_time_is_told_as_a_time_out() -> None:
    sandbox, python = failing_at(9, SandboxError("never"))
    await python.run("x = 1")
    sandbox.on_exec(lambda launch, box: asyncio.sleep(9999, ExecResult(exit_code=0)))
    late = await FastClock().run(python.run("while True: os.fork()"), within_s=70)
    assert (late.outcome, late.restarted) == ("timed_out", True)
    assert late.notes[0] == "the code did not end within 30 seconds, so its process was killed"


class CutOffSandbox(FakeSandbox):
    """Lives, and is out of reach: its provider's engine does not answer."""

    is_cut_off = False
    hangs = False

    async def exec(self, launch: Launch, on_output: OnOutput | None = None) -> ExecResult:
        if self.is_cut_off:
            await asyncio.sleep(9999 if self.hangs else 0)
            raise SandboxError("connection refused")
        return await super().exec(launch, on_output)

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        if self.is_cut_off:
            raise SandboxError("connection refused")
        await super().write(path, content, mode)

    async def renew(self) -> None:
        if self.is_cut_off:
            raise SandboxError("connection refused")
        await super().renew()


async def cut_off_after_code(*, hangs: bool = False, ends: bool = False) -> PythonRuntime:
    """`ends`: the process that ran the code ended with it, so the next code needs a new one."""
    sandbox = CutOffSandbox("box", SandboxSpec())
    sandbox.on_exec(lambda launch, box: ExecResult(exit_code=0, stdout=STARTED))
    python = PythonRuntime(sandbox, RuntimeSettings(), Setup())
    assert (await python.run("x = 1")).outcome == "ok"
    if ends:
        sandbox.on_exec(lambda launch, box: ExecResult(exit_code=0, stdout=b""))
        assert (await python.run("os._exit(0)")).outcome == "died"
    sandbox.is_cut_off, sandbox.hangs = True, hangs
    return python


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("ends", [False, True])
async def test_a_sandbox_out_of_reach_is_ours_though_code_has_run(hangs: bool, ends: bool) -> None:
    python = await cut_off_after_code(hangs=hangs, ends=ends)
    with pytest.raises(SandboxError, match="does not answer"):
        await FastClock().run(python.run("print(x)"), within_s=200)


async def test_files_that_cannot_be_brought_to_a_sandbox_out_of_reach_are_ours() -> None:
    python = await cut_off_after_code()
    with pytest.raises(SandboxError, match="does not answer"):
        await python.hand_over({"late.txt": b""}, "", timeout_s=5)


async def test_a_sandbox_that_is_gone_is_ours() -> None:
    _, python = failing_at(1, SandboxLost("gone"))
    with pytest.raises(SandboxLost):
        await python.run("print(1)")


async def test_a_client_that_code_killed_is_the_codes_doing() -> None:
    sandbox, python = failing_at(1, SandboxError("no process to be had"))
    assert (await python.run("print(1)")).outcome == "died"
    assert (await python.run("print(1)")).outcome == "ok"
    assert [operation(launch) for launch in sandbox.launches] == ["start", "run", "stop", "start", "run"]


async def test_an_answer_that_is_none_is_a_process_that_died() -> None:
    sandbox, python = failing_at(9, SandboxError("never"))
    await python.run("print(1)")
    sandbox.on_exec(lambda launch, box: ExecResult(exit_code=0, stdout=b"{} and more"))
    assert (await python.run("print(1)")).outcome == "died"


# -- what is brought to a process that lives --------------------------------


async def test_files_and_code_of_ours_are_brought_to_the_process_that_lives(python: PythonRuntime) -> None:
    take = "late = open(FOLDER + '/late.txt').read()"
    assert await python.hand_over({"late.txt": b"a late one"}, take, timeout_s=5) is None
    await python.run("x = 1")
    brought = await python.hand_over({"late.txt": b"a late one"}, take, timeout_s=5)
    assert brought is not None
    assert brought.outcome == "ok"
    assert (await python.run("print(late, x)")).text == "a late one 1\n"


async def test_code_of_ours_that_is_held_up_ends_in_its_own_time(python: PythonRuntime) -> None:
    await python.run("import builtins, time\nbuiltins.open = lambda *_: time.sleep(1000)")
    held_up = await python.hand_over({}, "open('x')", timeout_s=0.3)
    assert held_up is not None
    assert (held_up.outcome, held_up.restarted) == ("timed_out", True)
    assert (await python.run("print(clue)")).text == "a clue\n"


async def test_files_that_the_codes_leavings_keep_out_are_told_of() -> None:
    sandbox = CrowdedSandbox("box", SandboxSpec())
    sandbox.on_exec(lambda launch, box: ExecResult(exit_code=0, stdout=STARTED))
    python = PythonRuntime(sandbox, RuntimeSettings(), Setup())
    await python.run("print(1)")
    sandbox.is_crowded = True
    kept_out = await python.hand_over({"late.txt": b""}, "", timeout_s=5)
    assert kept_out is not None
    assert (kept_out.outcome, kept_out.restarted, kept_out.notes) == ("not_run", False, ["no process to be had"])
    sandbox.is_crowded = False
    sandbox.die()
    with pytest.raises(SandboxLost):
        await python.hand_over({"late.txt": b""}, "", timeout_s=5)


class SlowSandbox(FakeSandbox):
    """Each file takes `write_s`."""

    write_s = 0.0

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        await asyncio.sleep(self.write_s)
        await super().write(path, content, mode)


@pytest.mark.parametrize(("write_s", "outcome", "operations"), [(9, "ok", ["run", "run"]), (11, "not_run", ["run"])])
async def test_files_that_are_slow_to_come_take_no_time_of_the_codes_and_no_variables(
    write_s: float, outcome: str, operations: list[str]
) -> None:
    sandbox = SlowSandbox("box", SandboxSpec())
    sandbox.on_exec(lambda launch, box: ExecResult(exit_code=0, stdout=STARTED))
    python = PythonRuntime(sandbox, RuntimeSettings(), Setup())
    await python.run("x = 1")
    sandbox.launches.clear()
    sandbox.write_s = write_s
    brought = await FastClock().run(python.hand_over({"late.txt": b""}, "", timeout_s=10), within_s=30)
    assert brought is not None
    assert (brought.outcome, brought.restarted) == (outcome, False)
    await python.run("print(x)")
    assert [operation(launch) for launch in sandbox.launches] == operations
    assert [given_s(launch) for launch in sandbox.launches][:-1] == [10] * (len(operations) - 1)


def given_s(launch: Launch) -> float:
    """For the code."""
    return float(json.loads(base64.b64decode("".join(launch.argv[5:])))["timeout_s"])
