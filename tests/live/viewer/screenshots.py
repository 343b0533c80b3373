"""Pictures of the page for the documents, of the demo's run. `make screenshots` makes them.

python -m tests.live.viewer.screenshots RUN.jsonl FOLDER
"""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

from tests.live.chromium import NoBrowser, find_chromium
from tests.live.viewer.serving import Viewing, viewing
from tests.live.viewer.watching import Watched, watched_page

COLOURS = 200
"""Of a picture's palette: enough for text and charts, and a quarter of the bytes."""


@dataclass(frozen=True)
class Shot:
    name: str
    show: Callable[[Watched], None]
    width: int = 1440
    height: int = 900
    is_dark: bool = False


def show_runs(watched: Watched) -> None:
    expect(watched.get("run").first).to_be_visible()


def show_run(watched: Watched) -> None:
    watched.get("run").first.click()
    expect(watched.get("row").first).to_be_visible()


def show_rollout(watched: Watched) -> None:
    """The one whose model looked at the most pictures."""
    show_run(watched)
    watched.get("sort-images").click()
    watched.get("sort-images").click()
    watched.get("row").first.click()
    expect(watched.get("turn").first).to_be_visible()


def show_pictures(watched: Watched) -> None:
    show_rollout(watched)
    watched.press("i", "ArrowRight", "s")
    expect(watched.get("large-picture")).to_have_count(2)


SHOTS = (
    Shot("view-runs", show_runs, height=360),
    Shot("view-run", show_run),
    Shot("view-run-dark", show_run, is_dark=True),
    Shot("view-run-narrow", show_run, width=800, height=1000),
    Shot("view-rollout", show_rollout),
    Shot("view-rollout-dark", show_rollout, is_dark=True),
    Shot("view-rollout-narrow", show_rollout, width=800, height=1000),
    Shot("view-pictures", show_pictures, is_dark=True),
)


def take(shot: Shot, browser: Browser, served: Viewing) -> bytes:
    """A PNG with a palette. Raises AssertionError for a page that does what it may not."""
    with watched_page(browser, served.url, width=shot.width, height=shot.height, is_dark=shot.is_dark) as watched:
        shot.show(watched)
        watched.until_pictures_are_there()
        watched.page.mouse.move(0, 0)
        content = watched.page.screenshot(animations="disabled")
    with Image.open(io.BytesIO(content)) as full:
        smaller = full.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    smaller.save(packed, "PNG", optimize=True)
    return packed.getvalue()


def main(run: Path, folder: Path) -> int:
    try:
        chromium = find_chromium()
    except NoBrowser as error:
        sys.stdout.write(f"no pictures: {error}\n")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, viewing(run) as served:
        browser = playwright.chromium.launch(executable_path=chromium.program, env=dict(chromium.env))
        for shot in SHOTS:
            content = take(shot, browser, served)
            (folder / f"{shot.name}.png").write_bytes(content)
            sys.stdout.write(f"{shot.name}.png  {len(content) // 1000} kB\n")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
