"""The list of runs, and the page of one run."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.live.viewer.serving import Viewing
from tests.live.viewer.watching import Watched, watched_page

pytestmark = [pytest.mark.live, pytest.mark.viewer]

RUNS = ["first", "long", "second", "small", "uneven"]


def open_run(watched: Watched, name: str) -> None:
    """From the list."""
    watched.get("run").filter(has_text=re.compile(rf"^{name}")).click()
    expect(watched.get("run-name")).to_have_text(name)
    expect(watched.get("row").first).to_be_visible()


def rows(watched: Watched) -> list[str]:
    """The first words of each row that is drawn."""
    return watched.get("row").all_inner_texts()


def column(watched: Watched, name: str) -> list[str]:
    """Of the rows that are drawn, from the first one on."""
    return watched.page.locator(f"[data-testid=row] [data-testid=cell-{name}]").all_inner_texts()


def test_the_list_has_each_run_with_its_score_and_what_is_masked_and_missing(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        expect(watched.get("run")).to_have_count(len(RUNS))
        assert sorted(text.split("\n")[0] for text in watched.get("run").all_inner_texts()) == RUNS
        uneven = watched.get("run").filter(has_text="uneven")
        expect(uneven.get_by_test_id("state")).to_have_text("partial")
        expect(uneven.get_by_test_id("run-measured")).to_contain_text("13 / 24")
        expect(uneven.get_by_test_id("run-masked")).to_contain_text("5")
        expect(uneven.get_by_test_id("run-missing")).to_contain_text("6")
        small = watched.get("run").filter(has_text="small")
        expect(small.get_by_test_id("score")).to_have_text("0.667")


def test_the_token_is_in_no_address_after_the_first_one(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_run(watched, "small")
        token = viewed.url.partition("token=")[2]
        assert len(token) > 20
        assert token not in watched.page.url
        assert [url for url in watched.requests if token in url.partition("#")[0]] == []


def test_without_the_token_nothing_is_shown(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.at("#/")) as watched:
        expect(watched.page.get_by_text("gym view")).not_to_have_count(0)
        expect(watched.get("run")).to_have_count(0)
        expect(watched.page.get_by_text("no valid key")).to_be_visible()
        refused = [text for text in watched.complaints if "401" in text]
        assert refused != []
        watched.complaints.clear()


def test_a_runs_page_has_its_numbers(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_run(watched, "uneven")
        headline = watched.get("headline")
        expect(headline.get_by_test_id("figure-measured")).to_contain_text("of 24 rollouts")
        expect(headline.get_by_test_id("figure-masked")).to_contain_text("5")
        expect(headline.get_by_test_id("figure-missing")).to_contain_text("6")
        expect(watched.get("interval")).to_contain_text("95 %")
        for panel, words in {
            "categories": "Visual Tracking",
            "failures": "model unavailable",
            "tools": "bash",
            "spread": "output tokens",
        }.items():
            expect(watched.get(panel)).to_contain_text(words)
        expect(watched.get("histogram")).to_have_count(4)
        measures = watched.get("measures")
        expect(measures.locator("summary")).to_contain_text("look calls 2.40, roi recall 0.20")
        measures.locator("summary").click()
        expect(measures.get_by_role("columnheader")).to_have_text(["look calls", "roi recall"])
        expect(measures.get_by_role("row").filter(has=watched.page.get_by_role("rowheader", name="Maze"))).to_have_text(
            "Maze2.00-"
        )
        expect(watched.get("attempts")).to_contain_text("1 broken attempt")
        watched.get("setup").locator("summary").first.click()
        expect(watched.get("setup")).to_contain_text("gym eval run --benchmark made")


def test_rows_are_filtered_by_outcome_category_and_failure(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_run(watched, "uneven")
        expect(watched.get("shown")).to_have_text("18 rollouts")
        watched.get("filter-masked").click()
        expect(watched.get("shown")).to_have_text("5 of 18 rollouts")
        expect(watched.get("row")).to_have_count(5)
        watched.get("filter-failure").select_option("model_unavailable")
        expect(watched.get("row")).to_have_count(2)
        watched.get("clear").click()
        expect(watched.get("row")).to_have_count(18)
        watched.get("filter-category").select_option("Visual Tracking")
        expect(watched.get("shown")).to_have_text("5 of 18 rollouts")
        watched.get("failures").get_by_role("button", name="agent timeout").click()
        expect(watched.get("shown")).to_have_text("0 of 18 rollouts")
        watched.get("clear").click()
        watched.get("failures").get_by_role("button", name="agent timeout").click()
        expect(watched.get("row")).to_have_count(1)
        expect(watched.get("row")).to_contain_text("agent timeout")


def test_rows_are_searched_and_sorted(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_run(watched, "small")
        before = rows(watched)
        assert len(before) == 12
        watched.get("sort-gold").click()
        golds = [int(text) for text in column(watched, "gold")]
        assert golds == sorted(golds)
        assert len(set(golds)) > 5
        watched.get("sort-gold").click()
        down = [int(text) for text in column(watched, "gold")]
        assert down == sorted(golds, reverse=True)
        watched.get("sort-gold").click()
        assert rows(watched) == before
        watched.get("search").fill("puzzle 7:")
        expect(watched.get("row")).to_have_count(1)
        watched.get("search").fill("nothing has this")
        expect(watched.get("row")).to_have_count(0)


def test_the_pages_keys_move_open_search_and_go_back(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        expect(watched.get("run")).to_have_count(len(RUNS))
        names = [text.split("\n")[0] for text in watched.get("run").all_inner_texts()]
        watched.press("j", "ArrowDown", "k", "Enter")
        expect(watched.get("run-name")).to_have_text(names[0])
        expect(watched.get("row").first).to_be_visible()
        watched.press("Escape")
        expect(watched.get("run")).to_have_count(len(RUNS))
        open_run(watched, "small")
        watched.press("?")
        expect(watched.get("help")).to_be_visible()
        watched.press("Escape")
        expect(watched.get("help")).to_have_count(0)
        watched.press("/")
        expect(watched.get("search")).to_be_focused()
        watched.page.keyboard.type("jk?")
        expect(watched.get("search")).to_have_value("jk?")
        watched.press("Escape")
        expect(watched.get("search")).not_to_be_focused()
        watched.press("Escape")
        expect(watched.get("search")).to_have_value("")
        watched.press("j", "j", "G", "k", "g")
        selected = watched.page.locator("[data-testid=row][aria-selected=true]")
        expect(selected).to_have_count(1)
        id = watched.get("row").first.get_attribute("data-id")
        assert selected.get_attribute("data-id") == id
        watched.press("Enter")
        expect(watched.page).to_have_url(re.compile(rf"/rollout/{id}$"))
        watched.press("Escape")
        expect(watched.get("run-name")).to_have_text("small")
        expect(selected).to_have_attribute("data-id", str(id))


def test_a_link_to_a_run_opens_it_and_a_wrong_one_says_so(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_run(watched, "second")
        address = watched.page.url
        watched.open(address)
        expect(watched.get("run-name")).to_have_text("second")
        watched.open(viewed.at("#/run/no-such-run"))
        expect(watched.get("error")).to_contain_text("no-such-run")
        assert any("404" in text for text in watched.complaints)
        watched.complaints.clear()


@pytest.mark.parametrize("is_dark", [False, True])
def test_the_page_is_light_or_dark_as_the_system_says_until_one_chooses(
    is_dark: bool, browser: Browser, viewed: Viewing
) -> None:
    with watched_page(browser, viewed.url, is_dark=is_dark) as watched:
        expect(watched.get("run")).to_have_count(len(RUNS))
        assert is_page_dark(watched) == is_dark
        watched.press("t")
        assert is_page_dark(watched) != is_dark
        watched.open(viewed.at("#/"))
        expect(watched.get("run")).to_have_count(len(RUNS))
        assert is_page_dark(watched) != is_dark


def is_page_dark(watched: Watched) -> bool:
    colour = watched.page.evaluate("getComputedStyle(document.documentElement).backgroundColor") or ""
    if colour in ("", "rgba(0, 0, 0, 0)"):
        colour = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) < 3 * 128
