"""The page of a run that is still written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from gym_core.rollout.sink import read_rows, rewrite
from tests.fakes.made_runs import GrowingRun, growing_run, made_rollout, write_small_run
from tests.live.viewer.serving import Viewing, viewing
from tests.live.viewer.watching import watched_page

pytestmark = [pytest.mark.live, pytest.mark.viewer]

N_TASKS = 12


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[GrowingRun]:
    with growing_run(tmp_path, n_first=3, n_tasks=N_TASKS) as growing:
        yield growing


@pytest.fixture
def viewed(growing: GrowingRun) -> Iterator[Viewing]:
    with viewing(growing.run.path) as served:
        yield served


def test_rows_and_numbers_come_as_rollouts_finish(browser: Browser, growing: GrowingRun, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        expect(watched.get("state")).to_have_text("running")
        watched.get("run").click()
        expect(watched.get("row")).to_have_count(3)
        expect(watched.get("figure-missing")).to_contain_text(str(N_TASKS - 3))
        watched.press("j")
        selected = watched.page.locator("[data-testid=row][aria-selected=true]")
        id = selected.get_attribute("data-id")
        growing.add(2)
        expect(watched.get("row")).to_have_count(5)
        expect(watched.get("figure-missing")).to_contain_text(str(N_TASKS - 5))
        assert selected.get_attribute("data-id") == id
        growing.grow()
        expect(watched.get("row")).to_have_count(N_TASKS)
        expect(watched.get("score").first).to_have_text("0.500")


def test_a_rollout_that_is_played_is_shown_so_far(browser: Browser, growing: GrowingRun, viewed: Viewing) -> None:
    rollout = growing.begin(2)
    with watched_page(browser, viewed.url) as watched:
        watched.get("run").click()
        expect(watched.get("in-flight")).to_contain_text("1")
        watched.get("flight").click()
        expect(watched.page).to_have_url(re.compile(rf"/rollout/t{rollout.index}-"))
        expect(watched.get("turn")).to_have_count(2)
        growing.begin(4)
        expect(watched.get("turn")).to_have_count(4)
        growing.add()
        expect(watched.get("grade")).to_contain_text(str(rollout.answer))
        expect(watched.get("turn")).to_have_count(len(rollout.turns))


def test_a_run_that_ended_with_half_a_line_says_so_and_shows_the_rest(
    browser: Browser, growing: GrowingRun, viewed: Viewing
) -> None:
    with watched_page(browser, viewed.url) as watched:
        watched.get("run").click()
        expect(watched.get("row")).to_have_count(3)
        growing.end()
        growing.run.tear(made_rollout(7))
        expect(watched.get("problem")).to_contain_text("cut off")
        expect(watched.get("state")).to_have_text("partial")
        expect(watched.get("row")).to_have_count(3)


def test_a_run_whose_file_is_replaced_is_read_anew(browser: Browser, growing: GrowingRun, viewed: Viewing) -> None:
    """As a resume does, which moves masked rollouts out of it."""
    with watched_page(browser, viewed.url) as watched:
        watched.get("run").click()
        expect(watched.get("row")).to_have_count(3)
        growing.end()
        rewrite(growing.run.path, list(read_rows(growing.run.path))[1:])
        expect(watched.get("row")).to_have_count(2)
        expect(watched.get("figure-measured")).to_contain_text("2")


def test_the_page_says_that_the_server_is_gone_and_goes_on_when_it_is_back(browser: Browser, tmp_path: Path) -> None:
    run = write_small_run(tmp_path)
    with viewing(run.path) as served:
        port = served.origin.rpartition(":")[2]
        with watched_page(browser, served.url) as watched:
            expect(watched.get("run")).to_have_count(1)
            served.end()
            expect(watched.get("trouble")).to_contain_text("does not answer")
            with viewing(run.path, "--port", port) as again:
                expect(watched.get("trouble")).to_contain_text("no valid key")
                watched.open(again.url)
                expect(watched.get("run")).to_have_count(1)
                expect(watched.get("trouble")).to_be_hidden()
            watched.complaints.clear()


def test_a_run_that_appears_in_a_folder_appears_in_the_list(browser: Browser, tmp_path: Path) -> None:
    with viewing(tmp_path) as served, watched_page(browser, served.url) as watched:
        expect(watched.get("no-runs")).to_be_visible()
        with growing_run(tmp_path):
            expect(watched.get("run")).to_contain_text("growing")
