"""How fast `gym view` opens in a browser, and what it holds, in absolute figures.

    python -m tests.bench.bench_viewer [--tries 5]

A run of 1,000 rollouts of 60 turns, first with a server that was just started (which reads 60 MB), then again; one
rollout of 60 turns with 40 pictures of 500 kB; the same as an exported file of 28 MB. Aims: 2 s for the run, 1 s for
the rollout.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from gym_core.cli.main import main as run_gym
from tests.bench.measured import load_line, table
from tests.fakes.made_runs import write_large_run, write_long_rollout
from tests.live.chromium import NoBrowser, find_chromium
from tests.live.viewer.serving import viewing
from tests.live.viewer.watching import Watched, watched_page

RUN_AIM_S, ROLLOUT_AIM_S = 2.0, 1.0
COLUMNS = ("what", "median s", "best s", "aim s", "elements", "page MiB", "server MiB")


@dataclass(frozen=True)
class Opened:
    name: str
    seconds: list[float]
    aim_s: float | None
    elements: int
    heap_mib: float
    server_mib: float | None

    def row(self) -> list[object]:
        times = [statistics.median(self.seconds), min(self.seconds)]
        return [self.name, *times, self.aim_s, self.elements, self.heap_mib, self.server_mib]


def has_rows(watched: Watched) -> None:
    expect(watched.get("row").first).to_be_visible()
    expect(watched.get("histogram").first).to_be_visible()


def has_pictures(watched: Watched) -> None:
    """The turns, and each picture that is on the screen."""
    expect(watched.get("turn").first).to_be_visible()
    watched.until_pictures_are_there()


def reopen(watched: Watched, url: str, is_there: Callable[[Watched], None]) -> float:
    watched.page.goto("about:blank")
    started = time.perf_counter()
    watched.page.goto(url)
    is_there(watched)
    return time.perf_counter() - started


def heap_mib(watched: Watched) -> float:
    session = watched.page.context.new_cdp_session(watched.page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    return used / 2**20


def elements(watched: Watched) -> int:
    count: int = watched.page.evaluate("document.querySelectorAll('*').length")
    return count


def bench_run(browser: Browser, run: Path, tries: int) -> Iterator[Opened]:
    first = []
    for _ in range(tries):
        with viewing(run) as served, watched_page(browser, "about:blank") as watched:
            watched.origin = served.origin
            started = time.perf_counter()
            watched.page.goto(served.url)
            watched.get("run").click()
            has_rows(watched)
            first.append(time.perf_counter() - started)
            if len(first) == tries:
                held = elements(watched), heap_mib(watched), served.memory_mib()
                again = [reopen(watched, watched.page.url, has_rows) for _ in range(tries)]
    yield Opened("1,000 rollouts, server just started", first, RUN_AIM_S, *held)
    yield Opened("1,000 rollouts, again", again, RUN_AIM_S, *held)


def bench_rollout(browser: Browser, run: Path, tries: int) -> Iterator[Opened]:
    with viewing(run) as served, watched_page(browser, served.url) as watched:
        watched.get("run").click()
        watched.get("row").click()
        has_pictures(watched)
        seconds = [reopen(watched, watched.page.url, has_pictures) for _ in range(tries)]
        held = elements(watched), heap_mib(watched), served.memory_mib()
    yield Opened("60 turns, 40 pictures", seconds, ROLLOUT_AIM_S, *held)


def bench_exported(browser: Browser, run: Path, folder: Path, tries: int) -> Iterator[Opened]:
    output = folder / "out.html"
    run_gym(["view", "--export", str(output), str(run)])
    with watched_page(browser, output.as_uri()) as watched:
        watched.get("run").click()
        watched.get("row").click()
        has_pictures(watched)
        seconds = [reopen(watched, watched.page.url, has_pictures) for _ in range(tries)]
        yield Opened("the same in one file", seconds, None, elements(watched), heap_mib(watched), None)


@contextmanager
def open_browser() -> Iterator[Browser]:
    chromium = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.program, env=dict(chromium.env))
        yield browser
        browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=5)
    try:
        return bench(parser.parse_args().tries)
    except NoBrowser as error:
        sys.stdout.write(f"no browser: {error}\n")
        return 1


def bench(tries: int) -> int:
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        large, long = Path(name, "large"), Path(name, "long")
        for folder in (large, long):
            folder.mkdir()
        run = write_long_rollout(long).path
        found = [
            *bench_rollout(browser, run, tries),
            *bench_exported(browser, run, Path(name), tries),
            *bench_run(browser, write_large_run(large).path, tries),
        ]
        sys.stdout.write(f"{table(COLUMNS, [each.row() for each in found])}\n{load_line()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
