"""The page of one rollout."""

import re

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.live.viewer.serving import Viewing
from tests.live.viewer.test_runs import open_run
from tests.live.viewer.watching import Watched, watched_page

pytestmark = [pytest.mark.live, pytest.mark.viewer]


def open_rollout(watched: Watched, run: str, place: int = 0) -> None:
    open_run(watched, run)
    watched.get("row").nth(place).click()
    expect(watched.get("rollout-name")).to_be_visible()


def in_view(watched: Watched, locator: Locator) -> bool:
    box = locator.bounding_box()
    size = watched.page.viewport_size
    return box is not None and size is not None and box["y"] < size["height"] and box["y"] + box["height"] > 0


def test_the_conversation_has_thoughts_commands_outputs_and_pictures(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_rollout(watched, "long")
        turns = watched.get("turn")
        expect(turns).to_have_count(60)
        first = turns.first
        expect(first.get_by_test_id("said")).to_have_text("Step 0: I cut out the part that matters and measure it.")
        expect(first.get_by_test_id("reasoning")).to_contain_text("a crop helps")
        expect(first.get_by_test_id("command")).to_contain_text("crop.save('/workspace/crop0.png')")
        expect(first.get_by_test_id("output")).to_contain_text("row 011:")
        expect(first.get_by_test_id("picture")).to_have_count(1)
        expect(first.get_by_test_id("turn-facts")).to_contain_text("600 ms")
        expect(turns.last.get_by_test_id("said")).to_contain_text("\\boxed{3}")
        expect(watched.page.locator("[data-testid=turn] [data-testid=picture]")).to_have_count(40)
        fetched = {url for url in watched.requests if "/images/" in url}
        assert 1 < len(fetched) < 40


def test_beside_it_are_puzzle_grade_time_tokens_and_capture(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_rollout(watched, "long")
        expect(watched.get("puzzle")).to_contain_text("Puzzle 1: how many dots")
        expect(watched.get("puzzle").get_by_test_id("picture")).to_have_count(1)
        grade = watched.get("grade")
        expect(grade.get_by_test_id("answer-gold")).to_contain_text("2")
        expect(grade.get_by_test_id("answer-answer")).to_contain_text("3")
        expect(grade.get_by_test_id("verdict")).to_have_text("different")
        expect(grade.get_by_test_id("reward")).to_have_text("reward 0")
        expect(grade.get_by_test_id("shaping")).to_contain_text("tool use+0.250")
        expect(grade.get_by_test_id("shaping")).to_contain_text("too long−0.125")
        grade.get_by_test_id("raw-reply").locator("summary").click()
        expect(grade.get_by_test_id("raw-reply")).to_contain_text('{"verdict": "..."}')
        for name in ("model", "shell and harness", "grading", "sandbox made"):
            expect(watched.get("time")).to_contain_text(name)
        expect(watched.get("tokens")).to_contain_text("pictures received")
        expect(watched.get("health")).to_contain_text("×2")
        expect(watched.get("turn").nth(20)).to_contain_text("drift")
        expect(watched.get("turn").nth(41)).to_contain_text("drift")
        expect(watched.page.locator("[data-testid=turn]", has_text="drift:")).to_have_count(2)
        watched.get("origin").locator("summary").click()
        expect(watched.get("origin")).to_contain_text("bubblewrap")


def test_a_picture_is_enlarged_and_compared_with_the_puzzle(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_rollout(watched, "long")
        watched.get("turn").nth(2).get_by_test_id("picture").click()
        large = watched.get("large-picture")
        expect(large).to_have_count(1)
        expect(watched.get("lightbox")).to_contain_text("turn 3")
        assert large.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 640
        width = large.bounding_box()
        assert width is not None
        assert width["width"] > 600
        watched.press("ArrowRight")
        expect(watched.get("lightbox")).to_contain_text("turn 4")
        watched.press("ArrowLeft", "k")
        expect(watched.get("lightbox")).to_contain_text("turn 2")
        watched.press("s")
        expect(large).to_have_count(2)
        expect(watched.get("lightbox")).to_contain_text("the puzzle")
        boxes = [box for picture in large.all() if (box := picture.bounding_box())]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
        watched.get("compare").click()
        expect(large).to_have_count(1)
        watched.press("z", "Escape")
        expect(watched.get("lightbox")).to_have_count(0)
        expect(watched.get("turn")).to_have_count(60)
        watched.press("i")
        expect(watched.get("lightbox")).to_contain_text("1 / 41")
        watched.get("lightbox-close").click()
        expect(watched.get("lightbox")).to_have_count(0)


def test_a_call_is_shown_as_it_was_sent(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_rollout(watched, "long")
        watched.get("turn").nth(4).get_by_test_id("as-sent").click()
        call = watched.get("call")
        expect(call).to_contain_text("Call 5 as it was sent")
        expect(call).to_contain_text("You are a coding agent.")
        expect(call.get_by_test_id("sent-message")).to_have_count(2 + 4 * 3 + 1)
        expect(call.get_by_test_id("picture")).to_have_count(5)
        watched.press("Escape")
        expect(call).to_have_count(0)


def test_the_keys_of_a_rollout_move_between_turns_and_rollouts(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_rollout(watched, "small", 1)
        first = watched.page.url
        selected = watched.page.locator("[data-testid=turn][data-selected]")
        watched.press("j", "j")
        expect(selected).to_have_attribute("data-turn", "2")
        watched.press("k")
        expect(selected).to_have_attribute("data-turn", "1")
        watched.press("G")
        expect(selected).to_have_attribute("data-turn", "6")
        assert in_view(watched, selected)
        watched.press("g")
        assert watched.page.evaluate("scrollY") == 0
        watched.press("ArrowRight")
        expect(watched.page).not_to_have_url(first)
        expect(watched.get("turn").first).to_be_visible()
        watched.press("ArrowLeft")
        expect(watched.page).to_have_url(first)
        expect(watched.get("turn").first).to_be_visible()
        watched.get("previous").click()
        expect(watched.page).not_to_have_url(first)
        expect(watched.get("previous")).to_have_count(0)
        watched.press("Escape")
        expect(watched.get("run-name")).to_have_text("small")
        watched.page.go_back()
        expect(watched.get("rollout-name")).to_be_visible()


def test_a_link_to_a_rollout_opens_it_and_a_wrong_one_says_so(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_rollout(watched, "second", 3)
        address, name = watched.page.url, watched.get("rollout-name").inner_text()
        watched.open(address)
        expect(watched.get("rollout-name")).to_have_text(name)
        watched.open(re.sub("rollout/.*", "rollout/no-such-rollout", address))
        expect(watched.get("error")).to_contain_text("no-such-rollout")
        assert any("404" in text for text in watched.complaints)
        watched.complaints.clear()


@pytest.mark.parametrize(
    ("failure", "tone", "reason"),
    [("agent timeout", "reward 0", "task 4, repeat 0"), ("internal", "masked", "task 3, repeat 2")],
)
def test_a_failure_says_whose_it_is_and_why(
    failure: str, tone: str, reason: str, browser: Browser, viewed: Viewing
) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_run(watched, "uneven")
        watched.get("row").filter(has_text=failure).click()
        expect(watched.get("failure")).to_contain_text(failure)
        expect(watched.get("failure")).to_contain_text(reason)
        expect(watched.get("grade")).to_contain_text(tone)


def test_attempts_that_broke_before_are_told(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_rollout(watched, "uneven")
        watched.get("origin").locator("summary").click()
        expect(watched.get("origin")).to_contain_text("the sandbox did not start")


@pytest.mark.parametrize("width", [1440, 800])
def test_nothing_is_wider_than_the_window(width: int, browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url, width=width) as watched:
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        expect(watched.get("run").first).to_be_visible()
        assert watched.page.evaluate(wide) == 0
        open_rollout(watched, "uneven")
        assert watched.page.evaluate(wide) == 0
        watched.press("Escape")
        expect(watched.get("row").first).to_be_visible()
        assert watched.page.evaluate(wide) == 0
