"""The file that `gym view --export` writes, opened from the disk with the network off."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from gym_core.cli.main import main
from tests.fakes.made_run import MadeRun
from tests.fakes.made_runs import write_long_rollout
from tests.live.viewer.test_runs import open_run
from tests.live.viewer.watching import watched_page

pytestmark = [pytest.mark.live, pytest.mark.viewer]


def test_it_shows_runs_rows_rollouts_and_pictures_without_a_server(
    browser: Browser, small_run: MadeRun, tmp_path: Path
) -> None:
    output = tmp_path / "out.html"
    assert main(["view", "--export", str(output), str(small_run.path)]) == 0
    with watched_page(browser, output.as_uri(), is_offline=True) as watched:
        open_run(watched, "small")
        expect(watched.get("row")).to_have_count(12)
        watched.press("j", "Enter")
        expect(watched.get("turn")).to_have_count(6)
        picture = watched.page.locator("[data-testid=picture] img").first
        assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 320
        watched.press("i", "s")
        expect(watched.get("large-picture").first).to_be_visible()
        watched.press("Escape")
        address = watched.page.url
        watched.page.goto("about:blank")
        watched.page.goto(address)
        expect(watched.get("turn")).to_have_count(6)
        assert [url for url in watched.requests if not url.startswith(("file://", "about:", "data:"))] == []


def test_it_holds_the_rollouts_that_were_asked_for_alone(browser: Browser, tmp_path: Path) -> None:
    run = write_long_rollout(tmp_path)
    (id,) = [path.name.partition("-a0")[0] for path in run.files.captures.iterdir()]
    output = tmp_path / "out.html"
    assert main(["view", "--export", str(output), "--rollout", id, "--max-mb", "1", str(run.path)]) == 0
    with watched_page(browser, f"{output.as_uri()}", is_offline=True) as watched:
        open_run(watched, "long")
        watched.press("j", "Enter")
        expect(watched.get("turn")).to_have_count(60)
        expect(watched.get("no-picture").first).to_contain_text("left out")
