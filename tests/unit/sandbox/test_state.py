"""Records of sandboxes, and the clean-up by them."""

import asyncio
import sys
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.owner import Owner
from gym_core.sandbox.providers.local.state import BoxRecords, default_state_dir, own_folder
from gym_core.sandbox.providers.local.sweep import sweep

WRITE = """
import sys
from pathlib import Path
from gym_core.sandbox.owner import Owner
from gym_core.sandbox.providers.local.state import BoxRecords
BoxRecords(Path(sys.argv[1])).write("dead", "box-1", cgroups=[Path(sys.argv[2])], metadata={"episode": "e-a0"})
"""


async def test_a_sweep_removes_what_a_dead_owner_left_and_keeps_the_rest(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITE, str(tmp_path), str(group))
    assert await owner.wait() == 0
    records = BoxRecords(tmp_path)
    records.write("mine", "box-2", cgroups=[], metadata={})

    report = await sweep(tmp_path)

    assert (report.removed, report.kept) == (["box-1"], 1)
    assert not group.exists()
    assert list(records.read_all()) == ["mine"]
    assert (await sweep(tmp_path)).removed == []


async def test_a_pid_that_was_used_again_is_not_the_owner(tmp_path: Path) -> None:
    records = BoxRecords(tmp_path)
    records.write("reused", "box-1", cgroups=[], metadata={})
    path = tmp_path / "boxes/reused.json"
    path.write_text(
        path.read_text().replace(str(Owner.here()), str(Owner.here().model_copy(update={"start_ticks": 1})))
    )
    assert (await sweep(tmp_path)).removed == ["box-1"]


async def test_strange_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes/note.json").write_text("{}")
    assert (await sweep(tmp_path)).removed == []
    assert (tmp_path / "boxes/note.json").exists()


async def test_a_sweep_where_nothing_ever_was_is_fine(tmp_path: Path) -> None:
    assert await sweep(tmp_path / "nowhere") == (await sweep(tmp_path))


def test_a_link_in_place_of_our_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(SandboxUnavailable, match="link"):
        own_folder(tmp_path / "link")


def test_the_state_folder_follows_the_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_state_dir() == tmp_path / "gym"
