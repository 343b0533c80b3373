"""Large runs open about as fast as small ones, and hold little: only what is on the screen."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, expect

from tests.live.viewer.serving import Viewing
from tests.live.viewer.test_runs import open_run
from tests.live.viewer.watching import Watched, watched_page

pytestmark = [pytest.mark.live, pytest.mark.viewer]

TRIES = 4
SLOWER_AT_MOST = 8.0
"""Times as long as a small one, the best of the tries each. The machine may be busy with other things."""


@dataclass(frozen=True)
class Opened:
    seconds: float
    elements: int
    heap_mib: float


def opened(watched: Watched, url: str, is_there: Callable[[Watched], None]) -> Opened:
    """The best of some tries, and what the page holds then."""
    seconds = []
    for _ in range(TRIES):
        watched.page.goto("about:blank")
        started = time.perf_counter()
        watched.page.goto(url)
        is_there(watched)
        seconds.append(time.perf_counter() - started)
    session = watched.page.context.new_cdp_session(watched.page)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    return Opened(min(seconds), watched.page.evaluate("document.querySelectorAll('*').length"), heap / 2**20)


def has_rows(watched: Watched) -> None:
    expect(watched.get("row").first).to_be_visible()
    expect(watched.get("histogram").first).to_be_visible()


def has_turns(watched: Watched) -> None:
    expect(watched.get("turn").first).to_be_visible()
    expect(watched.get("picture").first).to_be_visible()


def test_a_thousand_rollouts_open_about_as_fast_as_twelve(
    browser: Browser, viewed: Viewing, viewed_large: Viewing
) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_run(watched, "small")
        small = opened(watched, watched.page.url, has_rows)
    with watched_page(browser, viewed_large.url) as watched:
        open_run(watched, "large")
        large = opened(watched, watched.page.url, has_rows)
        expect(watched.get("shown")).to_have_text("1,000 rollouts")
        assert watched.get("row").count() < 80
        watched.press("G")
        expect(watched.page.locator("[data-testid=row][aria-selected=true]")).to_be_visible()
        assert watched.get("row").count() < 80
        watched.get("search").fill("puzzle 17:")
        expect(watched.get("row")).to_have_count(12)  # 17, 117 and 217, four of each
    assert large.seconds < SLOWER_AT_MOST * small.seconds
    assert large.elements < 4 * small.elements
    assert large.heap_mib < small.heap_mib + 30


def test_sixty_turns_with_forty_pictures_open_about_as_fast_as_six_turns(browser: Browser, viewed: Viewing) -> None:
    opening = {}
    for name in ("small", "long"):
        with watched_page(browser, viewed.url) as watched:
            open_run(watched, name)
            watched.get("row").first.click()
            has_turns(watched)
            opening[name] = opened(watched, watched.page.url, has_turns)
    assert opening["long"].seconds < SLOWER_AT_MOST * opening["small"].seconds
    assert opening["long"].heap_mib < opening["small"].heap_mib + 30


def test_the_server_keeps_an_index_and_not_the_rollouts(browser: Browser, viewed_large: Viewing) -> None:
    with watched_page(browser, viewed_large.url) as watched:
        open_run(watched, "large")
        before = viewed_large.memory_mib()
        for _ in range(25):
            watched.press("j", "Enter")
            has_turns(watched)
            watched.press("Escape")
            has_rows(watched)
        assert viewed_large.memory_mib() < before + 40
