from pathlib import Path

import pytest

from gym_core.config.roots import EXTRA_ROOTS_VARIABLE
from gym_core.config.schema import ServerInstance
from gym_core.types.wire import Wire
from tests.unit.config.house import BLOCKS, House


@pytest.fixture(autouse=True)
def _own_state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def furnished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """A house that is the working folder and a search folder, whose servers' code is the test's."""

    def block_class(server: ServerInstance, _: object) -> type[Wire]:
        return BLOCKS[server.implementation]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(EXTRA_ROOTS_VARIABLE, str(tmp_path))
    monkeypatch.setattr("gym_core.servers.plugins.block_class", block_class)
    house = House(tmp_path)
    house.furnish()
    return house
