from pathlib import Path

import pytest

from tests.unit.config.house import House


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """An empty house that is also the working folder."""
    monkeypatch.chdir(tmp_path)
    return House(tmp_path)
