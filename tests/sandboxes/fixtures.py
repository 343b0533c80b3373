"""What the suites' conftest files import."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sandboxes.subject import Stage, Subject


@pytest.fixture
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """A provider, opened for one test; the parameter is its `Subject`."""
    subject: Subject = request.param
    async with subject.open(tmp_path) as opened:
        yield opened
