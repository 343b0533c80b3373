"""A run in which everything is an attack is shown as text: nothing of it is executed, fetched, or hidden."""

import http.client
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from gym_core.cli.main import main
from tests.fakes.hostile_run import (
    ATTACKS,
    CANARY,
    EVIL_HOST,
    MARKUP,
    NAMES,
    SEEN,
    HostileRun,
    hidden_in,
    hostile_rollout,
    write_hostile_run,
)
from tests.live.viewer.serving import Viewing, viewing
from tests.live.viewer.watching import Watched, watched_page

pytestmark = [pytest.mark.live, pytest.mark.viewer]


@pytest.fixture(scope="module")
def viewed(hostile: HostileRun) -> Iterator[Viewing]:
    with viewing(hostile.run.path) as served:
        yield served


def open_hostile_run(watched: Watched) -> None:
    watched.get("run").click()
    expect(watched.get("row").first).to_be_visible()


def open_everything(watched: Watched) -> None:
    """All that a click shows."""
    watched.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    for more in watched.get("show-more").all()[:3]:
        more.click()


def test_the_harness_of_these_tests_notices_what_a_page_may_not_do(browser: Browser, viewed: Viewing) -> None:
    """Else the tests below would prove nothing."""
    with watched_page(browser, viewed.url) as watched:
        watched.page.evaluate(f"window.{CANARY} = 1")
        watched.page.evaluate(f"document.body.insertAdjacentHTML('beforeend', {MARKUP[4]!r})")
        watched.page.evaluate(f"fetch('http://{EVIL_HOST}/').catch(() => 0)")
        watched.page.evaluate("setTimeout(() => { throw new Error('uncaught') })")
        watched.page.evaluate("alert('hello')")
        with pytest.raises(AssertionError):
            watched.check()
        found = "\n".join(watched.complaints)
        for what in ("dialog: hello", "policy violated", "error: ", "was executed"):
            assert what in found
        watched.complaints.clear()
        watched.page.evaluate(f"delete window.{CANARY}")


def test_the_lists_show_attacks_as_text(browser: Browser, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        expect(watched.get("run")).to_contain_text("<img src=x onerror=")
        open_hostile_run(watched)
        open_everything(watched)
        text = watched.page.locator("body").inner_text()
        assert text.count(SEEN) > len(ATTACKS)
        assert "<script>" in text
        for name in ("question", "task", "answer", "flags"):
            watched.get(f"sort-{name}").click()
        watched.get("search").fill("__proto__")
        watched.get("search").fill(MARKUP[0])
        expect(watched.get("row").first).to_be_visible()
        expect(watched.page.locator("iframe, object, embed, base, form, script:not([src])")).to_have_count(0)


@pytest.mark.parametrize("part", range(4))
def test_a_rollout_shows_attacks_as_text(part: int, browser: Browser, hostile: HostileRun, viewed: Viewing) -> None:
    """Each attack is question, gold, answer, thought, command, output, tool name, verdict, note and column of one."""
    with watched_page(browser, viewed.url) as watched:
        open_hostile_run(watched)
        run = watched.page.url
        for rollout in hostile.rollouts()[: len(ATTACKS)][part::4]:
            watched.page.goto(f"{run}/rollout/{rollout}")
            expect(watched.get("turn").first).to_be_visible()
            open_everything(watched)
            text = watched.page.locator("body").inner_text()
            assert text.count(SEEN) > 10
            assert hidden_in(text.replace("\t", " ")) == set()
            watched.press("j", "k", "i", "Escape")
            watched.get("as-sent").last.click()
            expect(watched.get("call")).to_contain_text(SEEN)
            open_everything(watched)
            watched.press("Escape")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_as_a_part_of_every_object_is_a_name_like_others(
    name: str, browser: Browser, viewed: Viewing
) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_hostile_run(watched)
        watched.get("filter-category").select_option(name)
        expect(watched.get("row")).to_have_count(1)
        expect(watched.get("categories").get_by_text(name, exact=True)).to_have_count(2)
        watched.get("row").click()
        expect(watched.get("turn")).to_have_count(4)
        expect(watched.get("answer-gold")).to_contain_text(name)
        open_everything(watched)
        expect(watched.get("columns")).to_contain_text("hasOwnProperty")


def test_the_text_on_the_page_is_the_attack_itself(browser: Browser, hostile: HostileRun, viewed: Viewing) -> None:
    """Not a part of it, as it would be if some of it had become elements."""
    with watched_page(browser, viewed.url) as watched:
        open_hostile_run(watched)
        run = watched.page.url
        for rollout, attack in zip(hostile.rollouts(), MARKUP, strict=False):
            watched.page.goto(f"{run}/rollout/{rollout}")
            expect(watched.get("puzzle")).to_contain_text(SEEN)
            assert attack in watched.get("puzzle").inner_text()
            assert attack in watched.get("turn").first.inner_text()


def test_pictures_that_are_programs_or_elsewhere_are_named_and_not_shown(
    browser: Browser, hostile: HostileRun, viewed: Viewing
) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_hostile_run(watched)
        watched.page.goto(f"{watched.page.url}/rollout/{hostile.rollouts()[-2]}")
        expect(watched.get("no-picture")).to_have_count(4)
        shown = watched.page.locator("img")
        expect(shown).to_have_count(1)
        assert shown.evaluate("(image) => [image.complete, image.naturalWidth]") == [True, 320]  # what its head says


def test_ten_megabytes_in_one_line_are_shown_in_parts(browser: Browser, hostile: HostileRun, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_hostile_run(watched)
        watched.page.goto(f"{watched.page.url}/rollout/{hostile.rollouts()[-3]}")
        expect(watched.get("turn")).to_have_count(3)
        length = "document.body.innerText.length"
        before = watched.page.evaluate(length)
        assert before < 200_000
        for more in watched.get("show-more").all():
            more.click()
        watched.until(f"{length} > {before}")
        assert watched.page.evaluate(length) < 2_000_000
        assert hidden_in(watched.page.locator("body").inner_text().replace("\t", " ")) == set()


def test_a_masked_rollout_without_turns_is_shown(browser: Browser, hostile: HostileRun, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_hostile_run(watched)
        watched.page.goto(f"{watched.page.url}/rollout/{hostile.rollouts()[-1]}")
        expect(watched.get("failure")).to_contain_text("sandbox lost")
        expect(watched.get("failure")).to_contain_text(MARKUP[0])
        expect(watched.get("no-turns")).to_be_visible()


def test_no_address_leads_to_a_file_outside_the_assets(browser: Browser, hostile: HostileRun, viewed: Viewing) -> None:
    with watched_page(browser, viewed.url) as watched:
        open_hostile_run(watched)
        run = watched.page.url.rpartition("/")[2]
        watched.page.goto(f"{watched.page.url}/rollout/{hostile.rollouts()[0]}")
        expect(watched.page.locator("img").first).to_be_visible()
        good = str(watched.page.locator("img").first.get_attribute("src"))
        statuses = "async (urls) => Promise.all(urls.map(async (u) => [u, (await fetch(u)).status]))"
        own = good.rpartition("/")[0]
        asked = [
            f"{own}/{hostile.link_sha256}",
            f"{own}/..%2f..%2fsecret",
            f"/images/{'0' * 32}/{run}/{good.rpartition('/')[2]}",
            "/page/..%2fapp.py",
            "/page/%2e%2e/app.py",
            "/api/runs",
        ]
        replies = dict(watched.page.evaluate(statuses, asked))
        assert [status for status in replies.values() if status not in (401, 404)] == []
        assert watched.page.evaluate(statuses, [good]) == [[good, 200]]
        watched.complaints = [
            text for text in watched.complaints if not text.startswith(("status 4", "console error: F"))
        ]


def test_a_rollout_that_is_still_played_shows_attacks_as_text(browser: Browser, tmp_path: Path) -> None:
    """It is read from its calls, as they were sent, and not from a line that was checked."""
    run = write_hostile_run(tmp_path, huge_line_bytes=1000).run
    with run.opened(), viewing(run.path) as served, watched_page(browser, served.url) as watched:
        for attack in ATTACKS[::12]:
            run.begin(replace(hostile_rollout(1000, attack), attempt=1), 3)
        open_hostile_run(watched)
        expect(watched.get("flight")).to_have_count(len(ATTACKS[::12]))
        links = [str(link.get_attribute("href")) for link in watched.get("flight").all()]
        for link in links:
            watched.page.goto(served.at(link))
            expect(watched.get("turn").first).to_be_visible()
            open_everything(watched)
            text = watched.page.locator("body").inner_text()
            assert text.count(SEEN) > 10
            assert hidden_in(text.replace("\t", " ")) == set()


def test_another_sites_name_for_this_machine_is_refused(viewed: Viewing) -> None:
    """A page that had its own name point here would read everything else."""
    host, _, port = viewed.origin.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", "/page/", headers={"Host": f"{EVIL_HOST}:{port}"})
    assert connection.getresponse().status == 421
    connection.close()


def test_the_command_prints_nothing_that_drives_the_terminal(viewed: Viewing) -> None:
    assert viewed.url in viewed.said
    assert hidden_in(viewed.said) == set()


def test_an_exported_file_shows_attacks_as_text(browser: Browser, hostile: HostileRun, tmp_path: Path) -> None:
    output = tmp_path / "out.html"
    assert main(["view", "--export", str(output), str(hostile.run.path)]) == 0
    with watched_page(browser, output.as_uri(), is_offline=True) as watched:
        expect(watched.get("run")).to_contain_text("<img src=x onerror=")
        open_hostile_run(watched)
        open_everything(watched)
        run = watched.page.url
        for rollout in hostile.rollouts()[: len(ATTACKS)][::6]:
            watched.page.goto(f"{run}/rollout/{rollout}")
            expect(watched.get("turn").first).to_be_visible()
            assert watched.page.locator("body").inner_text().count(SEEN) > 5
