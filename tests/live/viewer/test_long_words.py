"""What a judge wrote without a space stays inside its card, and no font joins what a run holds into other signs."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect

from tests.fakes.made_run import MadeRun
from tests.fakes.made_runs import made_rollout
from tests.live.viewer.serving import Viewing, viewing
from tests.live.viewer.watching import watched_page

pytestmark = [pytest.mark.live, pytest.mark.viewer]

_WORD = "unbroken-->" * 18
_SPILLS = """
[...document.querySelectorAll('[data-testid="grade"] *')].filter((each) => {
  const card = document.querySelector('[data-testid="grade"]').getBoundingClientRect();
  return each.getBoundingClientRect().right > card.right;
}).map((each) => each.className || each.tagName)
"""
_JOINS = """
[...document.querySelectorAll("body, body *")].filter((each) => getComputedStyle(each).fontVariantLigatures !== "none")
  .map((each) => each.className || each.tagName)
"""


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewing]:
    details = {name: _WORD for name in ("judge_verdict", "judge_reason", "judge_model")}
    rollout = made_rollout(0)
    run = MadeRun(tmp_path_factory.mktemp("words"))
    run.plan([rollout])
    run.write([replace(rollout, details=details)])
    with viewing(run.path) as served:
        yield served


@pytest.mark.parametrize("width", [1440, 800, 600])
def test_a_word_without_end_stays_in_the_grade_card(width: int, browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url, width=width) as watched:
        watched.get("run").click()
        watched.get("row").click()
        expect(watched.get("verdict")).to_contain_text("unbroken-->unbroken-->")
        assert watched.page.evaluate(_SPILLS) == []


def test_nothing_on_any_page_is_shown_with_ligatures(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        for step in ("run", "row", "as-sent"):
            expect(watched.get(step).first).to_be_visible()
            assert watched.page.evaluate(_JOINS) == []
            watched.get(step).first.click()
        expect(watched.get("call")).to_be_visible()
        assert watched.page.evaluate(_JOINS) == []
