from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.house import House
from tests.system.processes import adopt_orphans


@pytest.fixture(scope="session", autouse=True)
def orphans() -> None:
    adopt_orphans()


@pytest.fixture
def house(tmp_path: Path, orphans: None) -> Iterator[House]:
    with House(tmp_path) as found:
        yield found
