"""Records of sandboxes, and the clean-up by them."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.owner import Owner, boot_id
from gym_core.sandbox.providers.local.state import BoxRecords, default_state_dir, own_folder
from gym_core.sandbox.providers.local.sweep import sweep

WRITE = """
import sys
from pathlib import Path
from gym_core.sandbox.providers.local.state import BoxRecords
records = BoxRecords(Path(sys.argv[1]))
claim = records.claim(longest_s=60)
records.write("dead", "box-1", claim=claim, cgroups=[Path(sys.argv[2])], metadata={"episode": "e-a0"})
"""


@pytest.fixture
def records(tmp_path: Path) -> Iterator[BoxRecords]:
    opened = BoxRecords(tmp_path)
    yield opened
    opened.close()


def write(records: BoxRecords, name: str, sandbox_id: str, **changes: object) -> None:
    claim = records.claim(longest_s=3600).model_copy(update=changes)
    records.write(name, sandbox_id, claim=claim, cgroups=[], metadata={})


async def test_a_sweep_removes_what_a_dead_owner_left_and_keeps_the_rest(tmp_path: Path, records: BoxRecords) -> None:
    group = tmp_path / "group"
    group.mkdir()
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITE, str(tmp_path), str(group))
    assert await owner.wait() == 0
    write(records, "mine", "box-2")
    assert len(owners_in(tmp_path)) == 2

    report = await sweep(tmp_path)

    assert (report.removed, report.kept) == (["box-1"], 1)
    assert not group.exists()
    assert list(records.read_all()) == ["mine"]
    assert len(owners_in(tmp_path)) == 1
    assert (await sweep(tmp_path)).removed == []


def owners_in(state: Path) -> list[Path]:
    return list((state / "owners").iterdir())


@pytest.mark.parametrize("changes", [{"pid_namespace": 1}, {"boot": "00000000"}, {"host": "elsewhere", "boot": "0"}])
async def test_one_whose_process_cannot_be_seen_lives_as_long_as_he_holds_his_file(
    changes: dict[str, object], tmp_path: Path, records: BoxRecords
) -> None:
    """A gym in another container has process ids of its own; its claim's end is nobody's business while it lives."""
    unseen = str(Owner.here().model_copy(update={"start_ticks": 1, **changes}))
    write(records, "his", "box-1", owner=unseen, ends_by=1.0)
    assert (await sweep(tmp_path)).removed == []
    records.close()
    assert (await sweep(tmp_path)).removed == ["box-1"]
    assert owners_in(tmp_path) == []


async def test_another_machine_s_record_is_kept_while_its_owner_lives(tmp_path: Path, records: BoxRecords) -> None:
    """In a folder that machines share, a strange boot id is not always this machine's of before a restart."""
    write(records, "theirs", "box-1")
    path = tmp_path / "boxes/theirs.json"
    path.write_text(path.read_text().replace(boot_id(), "another-machine"))
    assert (await sweep(tmp_path)).removed == []
    records.close()
    assert (await sweep(tmp_path)).removed == ["box-1"]


@pytest.mark.parametrize(("ends_by", "removed"), [(1.0, ["box-1"]), (None, []), (4e9, [])])
async def test_one_of_whom_nothing_can_be_told_is_given_up_when_his_claim_has_ended(
    ends_by: float | None, removed: list[str], tmp_path: Path, records: BoxRecords
) -> None:
    unseen = str(Owner.here().model_copy(update={"pid_namespace": 1}))
    write(records, "his", "box-1", owner=unseen, lifeline="", ends_by=ends_by)
    assert (await sweep(tmp_path)).removed == removed


async def test_where_only_process_ids_tell_they_are_believed_both_ways(tmp_path: Path, records: BoxRecords) -> None:
    """A pid that was used again is not the owner; one who can be seen to live is not dead by a clock."""
    write(records, "reused", "box-1", owner=str(Owner.here().model_copy(update={"start_ticks": 1})), lifeline="")
    write(records, "alive", "box-2", lifeline="", ends_by=1.0)
    report = await sweep(tmp_path)
    assert (report.removed, report.kept) == (["box-1"], 1)


async def test_one_that_closes_leaves_its_file_only_with_what_it_could_not_remove(tmp_path: Path) -> None:
    for leaves in (False, True):
        records = BoxRecords(tmp_path)
        write(records, "stuck", "box-1")
        if not leaves:
            records.remove("stuck")
        records.close()
        records.close()
        assert len(owners_in(tmp_path)) == leaves
    assert (await sweep(tmp_path)).removed == ["box-1"]
    assert owners_in(tmp_path) == []


async def test_records_of_before_there_were_lifelines_are_read(tmp_path: Path, records: BoxRecords) -> None:
    write(records, "old", "box-1", owner=str(Owner.here().model_copy(update={"start_ticks": 1})))
    path = tmp_path / "boxes/old.json"
    fields = json.loads(path.read_text())
    del fields["lifeline"], fields["ends_by"]
    path.write_text(json.dumps(fields))
    assert (await sweep(tmp_path)).removed == ["box-1"]


HALF_WRITTEN = """
import os, sys
from pathlib import Path
from gym_core.sandbox.providers.local.state import BoxRecords
records = BoxRecords(Path(sys.argv[1]))
Path.replace = lambda *_: os._exit(0)
records.write("half", "box-1", claim=records.claim(longest_s=60), cgroups=[], metadata={})
"""


async def test_a_record_that_a_dead_owner_had_begun_to_write_goes_and_a_living_one_s_stays(
    tmp_path: Path, records: BoxRecords
) -> None:
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", HALF_WRITTEN, str(tmp_path))
    assert await owner.wait() == 0
    mine = tmp_path / f"boxes/mine.{records.claim(longest_s=60).lifeline}.part"
    mine.write_text("{")
    (tmp_path / "boxes/note.part").write_text("not ours")
    assert len(list((tmp_path / "boxes").iterdir())) == 3
    await sweep(tmp_path)
    assert {path.name for path in (tmp_path / "boxes").iterdir()} == {mine.name, "note.part"}
    assert len(owners_in(tmp_path)) == 1


KILLED_IN_A_TRIAL = """
import asyncio, os, subprocess, sys
from pathlib import Path
from gym_core.sandbox.providers.local.cgroup import find_cgroup_tree
from gym_core.sandbox.providers.local.state import BoxRecords
subprocess.run = lambda *_, **__: os._exit(3)
asyncio.run(find_cgroup_tree(BoxRecords(Path(sys.argv[1]))))
"""


async def test_the_control_groups_of_a_trial_that_was_killed_are_swept(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED_IN_A_TRIAL, str(tmp_path))
    if await owner.wait() != 3:
        pytest.skip("no control group can be made here")
    (record,) = BoxRecords(tmp_path).read_all().values()
    assert there(record.cgroups)
    assert len((await sweep(tmp_path)).removed) == 1
    assert not there(record.cgroups)


def there(folders: list[str]) -> list[str]:
    return [folder for folder in folders if Path(folder).exists()]


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


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file/boxes"):
        with pytest.raises(SandboxUnavailable, match="cannot be made .* set another `state_dir`"):
            own_folder(path)
