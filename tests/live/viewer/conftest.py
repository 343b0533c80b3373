"""One browser for all tests of the page, and the runs that they look at, each made and served once."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.fakes.hostile_run import HostileRun, write_hostile_run
from tests.fakes.made_run import MadeRun
from tests.fakes.made_runs import write_large_run, write_long_rollout, write_pair, write_small_run, write_uneven_run
from tests.live.chromium import NoBrowser, find_chromium
from tests.live.viewer.serving import Viewing, viewing


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        chromium = find_chromium()
    except NoBrowser as error:
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium.program, env=dict(chromium.env))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return write_small_run(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewing]:
    """A folder with the runs "small", "uneven", "long", "first" and "second"."""
    folder = tmp_path_factory.mktemp("runs")
    write_small_run(folder)
    write_uneven_run(folder)
    write_long_rollout(folder)
    write_pair(folder)
    with viewing(folder) as served:
        yield served


@pytest.fixture(scope="session")
def viewed_large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewing]:
    """A thousand rollouts of sixty turns."""
    with viewing(write_large_run(tmp_path_factory.mktemp("large")).path) as served:
        yield served


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileRun:
    return write_hostile_run(tmp_path_factory.mktemp("hostile"))
