"""A living Python in a real sandbox with the toolkit: what code shows, in every usual way, and how far it may go."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox import toolkit
from gym_core.sandbox.contract import SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from gym_core.servers.python_runtime import Execution, PythonRuntime, RuntimeSettings, Setup
from tests.live.gyms import needs_toolkit

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_toolkit]


@asynccontextmanager
async def python_in_a_sandbox(folder: Path, **settings: float) -> AsyncIterator[PythonRuntime]:
    provider = LocalProvider(LocalSandboxConfig(state_dir=str(folder / "state"), toolkit=str(toolkit.toolkit_dir())))
    try:
        await provider.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    try:
        spec = SandboxSpec(resources=SandboxResources(memory_mib=4096))
        sandbox = await provider.create("living-python", spec)
        setup = Setup({"clue_0.png": png(30, 20)}, "from PIL import Image\nclue_0 = Image.open(FOLDER + '/clue_0.png')")
        yield PythonRuntime(sandbox, RuntimeSettings.model_validate(settings), setup)
    finally:
        await provider.aclose()


@pytest.fixture
async def python(tmp_path: Path) -> AsyncIterator[PythonRuntime]:
    async with python_in_a_sandbox(tmp_path) as runtime:
        yield runtime


def png(width: int, height: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(content, "PNG")
    return content.getvalue()


def sizes(execution: Execution) -> list[tuple[int, int]]:
    return [Image.open(io.BytesIO(image)).size for image in execution.images]


IMPORTS = "import matplotlib.pyplot as plt\n"
WAYS = {
    "show of pyplot": IMPORTS + "plt.plot([1, 2]); plt.show()",
    "show by its own name": "from matplotlib.pyplot import plot, show\nplot([1, 2]); show()",
    "show under another name": "import matplotlib.pyplot as p\nlook = p.show\np.plot([1]); look(block=True)",
    "show of a figure": IMPORTS + "fig, ax = plt.subplots(); ax.plot([1, 2]); fig.show()",
    "show of its manager": IMPORTS + "fig = plt.figure(); fig.canvas.manager.show()",
    "a figure without pyplot": "from matplotlib.figure import Figure\nfig = Figure(); fig.subplots(); fig.show()",
    "a figure left open": IMPORTS + "plt.imshow([[1, 2], [3, 4]])\nprint()",
    "display of a figure": IMPORTS + "fig = plt.figure(); display(fig); plt.close(fig)",
    "display of axes": IMPORTS + "fig, ax = plt.subplots(); display(ax)",
    "display as in a notebook": "from IPython.display import display\n" + IMPORTS + "display(plt.figure())",
    "a last expression": IMPORTS + "fig = plt.figure()\nfig",
    "a last expression that makes artists": IMPORTS + "plt.plot([1, 2])",
    "another backend first": "import matplotlib\nmatplotlib.use('Agg')\n" + IMPORTS + "plt.plot([1]); plt.show()",
    "a pause": IMPORTS + "plt.plot([1]); plt.pause(0.01)",
    "code that raises later": IMPORTS + "plt.plot([1]); 1 / 0",
}


@pytest.mark.parametrize("code", WAYS.values(), ids=WAYS)
async def test_a_figure_is_shown_once_at_its_own_size(python: PythonRuntime, code: str) -> None:
    shown = await python.run(code)
    assert sizes(shown) == [(640, 480)]
    assert (shown.notes, (await python.run("1")).images) == ([], [])


async def test_several_figures_come_in_the_order_in_which_they_were_shown_over_several_turns(
    python: PythonRuntime,
) -> None:
    first = await python.run(
        IMPORTS + "plt.figure(figsize=(1, 1)); plt.figure(figsize=(2, 1)); plt.show()\n"
        "clue_0.show()\nplt.figure(figsize=(3, 1)); display(clue_0.crop((0, 0, 5, 5)))"
    )
    second = await python.run("plt.figure(figsize=(4, 1)); clue_0.resize((7, 7))")
    assert sizes(first) == [(100, 100), (200, 100), (30, 20), (5, 5), (300, 100)]
    assert sizes(second) == [(7, 7), (400, 100)]


@pytest.mark.parametrize(
    ("expression", "size"),
    [
        ("np.zeros((4, 5), np.uint8)", (5, 4)),
        ("np.zeros((4, 5, 1), bool)", (5, 4)),
        ("np.random.rand(4, 5, 4)", (5, 4)),
        ("np.full((4, 5, 3), 65535, np.uint16)", (5, 4)),
        ("Image.new('I;16', (5, 4))", (5, 4)),
        ("Image.new('F', (5, 4), 1e9)", (5, 4)),
        ("Image.new('LA', (5, 4))", (5, 4)),
        ("Image.new('1', (5, 4))", (5, 4)),
    ],
)
async def test_every_kind_of_picture_is_shown(python: PythonRuntime, expression: str, size: tuple[int, int]) -> None:
    shown = await python.run(f"import numpy as np\nfrom PIL import Image\ndisplay({expression})")
    assert (shown.text, sizes(shown)) == ("", [size])


@pytest.mark.parametrize(
    "expression", ["np.zeros((2, 2, 7))", "np.zeros(0)", "np.full((2, 2), np.nan)", "'text'", "{}"]
)
async def test_what_is_no_picture_is_printed(python: PythonRuntime, expression: str) -> None:
    shown = await python.run(f"import numpy as np\ndisplay({expression})")
    assert (bool(shown.text), shown.images) == (True, [])


async def test_a_thousand_figures_cost_eight_pictures(tmp_path: Path) -> None:
    async with python_in_a_sandbox(tmp_path, timeout_s=120) as python:
        shown = await python.run(IMPORTS + "for _ in range(1000): plt.figure(figsize=(1, 1))")
    assert sizes(shown) == [(100, 100)] * 8
    assert shown.notes == ["only the first 8 of 1000 pictures are kept"]


async def test_pictures_that_are_too_large_come_smaller_and_too_long_ones_not_at_all(python: PythonRuntime) -> None:
    shown = await python.run(
        "Image.new('RGB', (20000, 20000)).show()\n" + IMPORTS + "plt.figure(figsize=(100, 100)); plt.show()\n"
        "plt.figure(figsize=(300, 1)); plt.show()\nImage.new('L', (201, 1)).show()\nImage.new('L', (200, 1)).show()"
    )
    assert sizes(shown) == [(2000, 2000), (1998, 1998), (200, 1)]
    assert shown.notes == [
        "a picture of 20000x20000 pixels is shown at 2000x2000",
        "a figure of 10000x10000 pixels is shown at 1998x1998",
        "a figure of 30000x100 pixels is not shown: one side is 300 times the other, at most 200 are allowed",
        "a picture of 201x1 pixels is not shown: one side is 201 times the other, at most 200 are allowed",
    ]


async def test_a_figure_that_cannot_be_drawn_is_told_and_the_others_are_shown(python: PythonRuntime) -> None:
    shown = await python.run(IMPORTS + "plt.title(r'$\\frac{1$'); plt.figure(figsize=(1, 1)); print()")
    assert (shown.outcome, sizes(shown)) == ("ok", [(100, 100)])
    assert shown.notes[0].startswith("a figure could not be drawn: ValueError")


async def test_code_in_c_that_does_not_come_back_is_killed(tmp_path: Path) -> None:
    async with python_in_a_sandbox(tmp_path, timeout_s=1) as python:
        late = await python.run("import ctypes\nprint('in C')\nctypes.PyDLL(None).sleep(100)")
        after = await python.run("clue_0.show()")
    assert (late.outcome, late.text, late.restarted) == ("timed_out", "in C\n", True)
    assert sizes(after) == [(30, 20)]


async def test_a_hundred_megabytes_of_output_come_as_their_ends(python: PythonRuntime) -> None:
    flood = await python.run("print('first')\nfor _ in range(100): print('x' * 1_000_000)\nprint('last')")
    assert (flood.outcome, flood.text[:6], flood.text[-6:]) == ("ok", "first\n", "\nlast\n")
    assert len(flood.text) < 20_100


async def test_more_memory_than_there_is_is_an_error_or_an_end_of_the_process(python: PythonRuntime) -> None:
    greedy = await python.run("x = bytearray(64 << 30)")
    filled = await python.run("y = [bytearray(b'x' * (64 << 20)) for _ in range(400)]")
    after = await python.run("clue_0.show()")
    assert greedy.outcome in ("raised", "died")
    assert filled.outcome in ("raised", "died")
    assert sizes(after) == [(30, 20)]


async def test_a_process_that_was_left_with_hundreds_of_children_is_replaced(python: PythonRuntime) -> None:
    sleep = "subprocess.Popen(['sleep', '99'], env={}, start_new_session=True)"
    code = f"import subprocess\np = [{sleep} for _ in range(150)]"
    left = await python.run(code)
    assert (left.outcome, left.restarted) == ("ok", True)
    assert "processes and threads were still running" in left.notes[0]
    assert (await python.run("print(1)")).text == "1\n"


async def test_clues_that_were_overwritten_are_there_again(python: PythonRuntime) -> None:
    spoilt = "import os\nos.remove(FOLDER + '/clue_0.png')"
    await python.run(f"{spoilt}\nclue_0 = None\nos._exit(0)")
    assert sizes(await python.run("clue_0.show()")) == [(30, 20)]


async def test_a_full_disk_is_the_codes_own_doing(python: PythonRuntime) -> None:
    full = await python.run(
        "import os\nwith open('/tmp/full', 'wb', buffering=0) as file:\n"
        "  try:\n    while True: file.write(b'x' * (1 << 20))\n  except OSError: os._exit(0)"
    )
    after = await python.run("print(1)")
    assert (full.outcome, after.outcome) == ("died", "not_run")
    assert after.notes[0].startswith("no new Python process could be started, so this code was not run: ")
    assert "No space left" in after.notes[0]


async def test_pools_of_processes_and_video_work(python: PythonRuntime) -> None:
    square = "import multiprocessing\ndef square(x): return x * x\n"
    pool = square + "with multiprocessing.Pool(2) as p: print(p.map(square, [3, 4]))"
    assert (await python.run(pool)).text == "[9, 16]\n"
    video = (
        "import av, numpy\nwith av.open('v.mp4', 'w') as film:\n"
        "    s = film.add_stream('h264', rate=5); s.width = s.height = 32; s.pix_fmt = 'yuv420p'\n"
        "    frames = [av.VideoFrame.from_ndarray(numpy.zeros((32, 32, 3), numpy.uint8)) for _ in range(5)]\n"
        "    film.mux([packet for frame in [*frames, None] for packet in s.encode(frame)])\n"
        "print(sum(1 for _ in av.open('v.mp4').decode(video=0)))"
    )
    assert (await python.run(video)).text == "5\n"
