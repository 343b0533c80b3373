"""The viewer's server: who gets in, what it gives, and what a browser may do with it."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gym_core.viewer.app import Viewer
from gym_core.viewer.shelf import Shelf
from gym_core.viewer.types import CallView, RolloutView, RowsPage, RunDetail, RunList, TextSlice, TurnsPage
from tests.fakes.hostile_run import ATTACKS, SEEN, HostileRun, write_hostile_run
from tests.fakes.made_run import MadeRun
from tests.fakes.made_runs import growing_run, write_small_run

TOKEN = "a-token-of-this-test"
HOST = "http://127.0.0.1:4711"


@asynccontextmanager
async def _browser(path: Path, *, token: str | None = TOKEN, host: str = HOST) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(Viewer(Shelf([path]), TOKEN).make_app())
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(transport=transport, base_url=host, headers=headers) as client:
        yield client


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return write_small_run(tmp_path_factory.mktemp("small"), n_tasks=4)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileRun:
    return write_hostile_run(tmp_path_factory.mktemp("hostile"), huge_line_bytes=200_000)


async def _first_run(browser: httpx.AsyncClient) -> str:
    return RunList.model_validate_json((await browser.get("/api/runs")).content).runs[0].id


async def _first_rollout(browser: httpx.AsyncClient, run: str) -> str:
    page = RowsPage.model_validate_json((await browser.get(f"/api/runs/{run}/rows")).content)
    return page.rows[0].id


async def _rollout_of(browser: httpx.AsyncClient, run: str, question: str) -> str:
    page = RowsPage.model_validate_json((await browser.get(f"/api/runs/{run}/rows")).content)
    (found,) = (row.id for row in page.rows if row.question == question)
    return found


# -- what it gives -----------------------------------------------------------


async def test_the_page_can_be_walked_from_the_list_to_a_text(small: MadeRun) -> None:
    async with _browser(small.path) as browser:
        run = await _first_run(browser)
        detail = RunDetail.model_validate_json((await browser.get(f"/api/runs/{run}")).content)
        assert (detail.rows, detail.card.name) == (4, "small")
        rollout = f"/api/runs/{run}/rollouts/{await _first_rollout(browser, run)}"
        view = RolloutView.model_validate_json((await browser.get(rollout)).content)
        assert view.grade is not None
        assert view.turns.total == 6
        turns = TurnsPage.model_validate_json((await browser.get(f"{rollout}/turns", params={"start": 4})).content)
        assert [turn.number for turn in turns.turns] == [5, 6]
        call = CallView.model_validate_json((await browser.get(f"{rollout}/calls/2")).content)
        assert call.facts.index == 2
        picture = await browser.get(view.pictures[0].url, headers={"Authorization": ""})
        assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
        assert "immutable" in picture.headers["cache-control"]


async def test_a_table_shows_the_puzzle_of_each_row(small: MadeRun) -> None:
    async with _browser(small.path) as browser:
        run = await _first_run(browser)
        page = RowsPage.model_validate_json((await browser.get(f"/api/runs/{run}/rows")).content)
        assert {row.picture for row in page.rows} == set(page.pictures)
        for url in page.pictures.values():
            assert (await browser.get(url)).status_code == 200


async def test_a_table_shows_no_picture_that_is_none(hostile: HostileRun) -> None:
    async with _browser(hostile.run.path) as browser:
        run = await _first_run(browser)
        page = RowsPage.model_validate_json((await browser.get(f"/api/runs/{run}/rows")).content)
        hidden = [row for row in page.rows if row.picture and row.picture not in page.pictures]
        assert [row.question for row in hidden] == [f"{SEEN} pictures"]


async def test_more_of_a_text_is_given_from_where_one_stopped(hostile: HostileRun) -> None:
    async with _browser(hostile.run.path) as browser:
        run = await _first_run(browser)
        rollout = f"/api/runs/{run}/rollouts/{await _rollout_of(browser, run, f'{SEEN} huge')}"
        body = (await browser.get(rollout)).text
        ids = re.findall(r'"length":(\d+),"id":"(r-\d+)"', body)
        assert len(body) < 200_000
        length, id = max(ids, key=lambda found: int(found[0]))
        more = TextSlice.model_validate_json((await browser.get(f"{rollout}/texts/{id}?start=12000")).content)
        assert (more.start, len(more.text), more.length) == (12_000, 50_000, int(length))


async def test_what_did_not_change_is_not_sent_again(tmp_path: Path) -> None:
    with growing_run(tmp_path, n_first=1, n_tasks=4, pause_s=0) as growing:
        async with _browser(growing.run.path) as browser:
            run = await _first_run(browser)
            for path in ("/api/runs", f"/api/runs/{run}"):
                first = await browser.get(path)
                seen = {"If-None-Match": first.headers["etag"]}
                assert (await browser.get(path, headers=seen)).status_code == 304
                growing.add()
                again = await browser.get(path, headers=seen)
                assert again.status_code == 200
                assert again.headers["etag"] != first.headers["etag"]


async def test_a_rollout_in_flight_can_be_opened_and_is_another_one_when_it_is_finished(tmp_path: Path) -> None:
    with growing_run(tmp_path, n_first=1, n_tasks=3, pause_s=0) as growing:
        growing.begin(2)
        async with _browser(growing.run.path) as browser:
            run = await _first_run(browser)
            detail = RunDetail.model_validate_json((await browser.get(f"/api/runs/{run}")).content)
            path = f"/api/runs/{run}/rollouts/{detail.in_flight[0].rollout}"
            assert RolloutView.model_validate_json((await browser.get(path)).content).state == "running"
            growing.add()
            assert RolloutView.model_validate_json((await browser.get(path)).content).state == "finished"


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/another",
        "/api/runs/{run}/rollouts/another",
        "/api/runs/{run}/rollouts/..%2f..%2fetc",
        "/api/runs/{run}/rollouts/{rollout}/calls/999",
        "/api/runs/{run}/rollouts/{rollout}/texts/r-999",
        "/page/..%2fapp.py",
        "/page/assets.py",
    ],
)
async def test_what_is_not_there_is_a_404(small: MadeRun, path: str) -> None:
    async with _browser(small.path) as browser:
        run = await _first_run(browser)
        reply = await browser.get(path.format(run=run, rollout=await _first_rollout(browser, run)))
        assert reply.status_code == 404


@pytest.mark.parametrize("start", ["-1", "x", "1e9", "９", "9" * 40])
async def test_a_place_that_is_no_number_is_refused(small: MadeRun, start: str) -> None:
    async with _browser(small.path) as browser:
        reply = await browser.get(f"/api/runs/{await _first_run(browser)}/rows", params={"start": start})
        assert reply.status_code == 422


# -- who gets in ---------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "another", ""])
async def test_without_the_token_nothing_of_a_run_is_given(small: MadeRun, token: str | None) -> None:
    async with _browser(small.path, token=token) as stranger:
        for path in ("/api/runs", "/api/runs/small", "/openapi.json", "/docs"):
            assert (await stranger.get(path)).status_code == 401
        assert (await stranger.get("/page/")).status_code == 200  # the page itself knows nothing


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1:4711", True),
        ("localhost:9", True),
        ("[::1]:4711", True),
        ("LOCALHOST", True),
        ("evil.invalid:4711", False),
        ("127.0.0.1.evil.invalid", False),
        ("127.0.0.1:x@evil.invalid", False),
        ("localhost.", False),
        ("", False),
    ],
)
async def test_a_page_of_another_name_is_refused(small: MadeRun, host: str, is_local: bool) -> None:
    async with _browser(small.path) as browser:
        for path in ("/api/runs", "/page/", "/", "/health"):
            reply = await browser.get(path, headers={"Host": host})
            assert (reply.status_code != 421) == is_local


async def test_a_picture_needs_the_key_that_was_given_for_it(small: MadeRun) -> None:
    async with _browser(small.path) as browser:
        run = await _first_run(browser)
        rollout = await _first_rollout(browser, run)
        view = RolloutView.model_validate_json((await browser.get(f"/api/runs/{run}/rollouts/{rollout}")).content)
        _, _, key, _, first = view.pictures[0].url.split("/")
        second = view.pictures[1].sha256
        for path in (f"/images/{key}/{run}/{second}", f"/images/x/{run}/{first}", f"/images/{key}/other/{first}"):
            assert (await browser.get(path)).status_code == 404
        assert (await browser.get(f"/images/{first}")).status_code == 404


async def test_a_picture_is_found_by_its_hash_and_is_what_its_hash_says(hostile: HostileRun) -> None:
    viewer = Viewer(Shelf([hostile.run.path]), TOKEN)
    transport = httpx.ASGITransport(viewer.make_app())
    async with httpx.AsyncClient(transport=transport, base_url=HOST) as browser:
        url_of = viewer.url_of(viewer.shelf.runs()[0].id)
        names = (hostile.link_sha256, "../secret", "..%2fsecret", "secret", "A" * 64, "0" * 64)
        for name in names:  # each with the key that it would have
            reply = await browser.get(url_of(name))
            assert reply.status_code == 404
            assert b"SECRET" not in reply.content


async def test_what_holds_a_script_is_never_a_picture(hostile: HostileRun) -> None:
    async with _browser(hostile.run.path) as browser:
        run = await _first_run(browser)
        rollout = await _rollout_of(browser, run, f"{SEEN} pictures")
        view = RolloutView.model_validate_json((await browser.get(f"/api/runs/{run}/rollouts/{rollout}")).content)
        assert len(view.pictures) >= 4
        shown = [picture for picture in view.pictures if picture.url]
        contents = [(await browser.get(picture.url)).content for picture in shown]
        assert [content for content in contents if b"<script" in content or b"<svg" in content] == []
        assert len(shown) == 1  # whose header is whole, and the rest is not


# -- what a browser may do -------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/page/", "/page/main.js", "/api/runs", "/nowhere", "/images/a/b/c", "/health"])
async def test_every_reply_says_what_a_browser_may_do_with_it(small: MadeRun, path: str) -> None:
    async with _browser(small.path) as browser:
        headers = (await browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "cache-control" in headers
        assert "set-cookie" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_nothing_can_be_changed(small: MadeRun, method: str) -> None:
    async with _browser(small.path) as browser:
        run = await _first_run(browser)
        for path in ("/api/runs", f"/api/runs/{run}", "/page/"):
            assert (await browser.request(method, path)).status_code == 405


async def test_hostile_content_travels_as_json_and_whole(hostile: HostileRun) -> None:
    async with _browser(hostile.run.path) as browser:
        run = await _first_run(browser)
        assert re.fullmatch(r"[A-Za-z0-9._-]+", run)
        for attack, rollout in zip(ATTACKS, hostile.rollouts(), strict=False):
            reply = await browser.get(f"/api/runs/{run}/rollouts/{rollout}")
            assert reply.headers["content-type"] == "application/json"
            view = RolloutView.model_validate_json(reply.content)
            assert view.prompts[0].text.text == attack
