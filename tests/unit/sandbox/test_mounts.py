"""Folders that a configuration shows to sandboxes: which may be, and the look from inside that believes nobody."""

import socket
from pathlib import Path

import pytest
from pydantic import ValidationError

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import ExecResult, Mount, NoNetwork, SandboxSpec
from gym_core.sandbox.lease import LeaseTable
from gym_core.sandbox.lender import Lender, LendingRules
from gym_core.sandbox.mounts import MOST_MOUNTS, SharedFolder, mount_options, must_be_read_only, why_not_here
from gym_core.servers.resources import SandboxSettings
from tests.fakes.sandbox import FakeProvider

DATA = Mount(source="/srv/data", target="/data")
SEEN = r"""
21 20 0:19 / /proc rw,nosuid - proc proc rw
30 20 8:1 /srv/data /data ro,nosuid,nodev,relatime master:1 - ext4 /dev/sda1 rw
31 20 8:1 /srv/my\040data /my\040data rw,relatime - ext4 /dev/sda1 rw
"""


def settings(*mounts: dict[str, str]) -> SandboxSettings:
    return SandboxSettings.model_validate({"mounts": list(mounts)})


def mount(source: str = "/srv/data", target: str = "/data") -> dict[str, str]:
    return {"source": source, "target": target}


@pytest.mark.parametrize(
    "source",
    [
        *("/", "/proc", "/proc/1/root", "/sys/fs", "/dev/shm", "/run/docker.sock", "/var/run/docker.sock", "/var"),
        *("/etc", "/etc/ssl", "/var/lib/docker/volumes", "/root", "/home", "/srv/me/.ssh", "/srv/.aws/credentials"),
    ],
)
def test_what_holds_keys_or_leads_to_the_machine_is_refused(source: str) -> None:
    with pytest.raises(ValidationError, match="may see|home folder|keys are kept"):
        settings(mount(source))


def test_a_link_to_such_a_folder_is_refused_too_with_both_names(tmp_path: Path) -> None:
    (tmp_path / "harmless").symlink_to("/etc")
    with pytest.raises(ValidationError, match=r"harmless' \(which leads to '/etc'\)"):
        settings(mount(str(tmp_path / "harmless")))


def test_the_home_of_whoever_runs_the_gym_is_refused_and_a_folder_in_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ValidationError, match="home folder"):
        settings(mount(str(tmp_path)))
    settings(mount(str(tmp_path / "pictures")))
    with pytest.raises(ValidationError, match="holds '.*', a home folder"):
        settings(mount(str(tmp_path.parent)))


def test_a_file_of_keys_is_refused_and_a_hidden_folder_of_data_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".fonts").mkdir()
    (tmp_path / ".unheard_of").touch()
    settings(mount(str(tmp_path / ".fonts")))
    for name in (".unheard_of", ".netrc", "work/.pgpass", "work/env.yaml", "work/id_ed25519"):
        with pytest.raises(ValidationError, match="keys are kept"):
            settings(mount(str(tmp_path / name)))


@pytest.mark.parametrize("target", ["/", "/usr/share/fonts", "/opt/toolkit", "/opt", "/workspace", "/home", "/.gym"])
def test_a_place_that_a_sandbox_needs_is_refused(target: str) -> None:
    with pytest.raises(ValidationError, match="a sandbox"):
        settings(mount(target=target))


@pytest.mark.parametrize("path", ["data", "", "/srv/../etc", "/srv//data", "//srv", "/srv/", "/a:b", "/a,b", "/a\0b"])
def test_a_path_must_be_absolute_and_plain(path: str) -> None:
    for wrong in (mount(source=path), mount(target=path)):
        with pytest.raises(ValidationError, match="absolute|plainly|character"):
            settings(wrong)


@pytest.mark.parametrize("other", ["/data", "/data/more"])
def test_two_in_each_other_s_way_are_refused(other: str) -> None:
    with pytest.raises(ValidationError, match="in each other's way"):
        settings(mount(), mount(target=other))


def test_there_may_be_some_and_not_any_number() -> None:
    many = [mount(target=f"/workspace/{n}") for n in range(MOST_MOUNTS + 1)]
    assert len(settings(*many[1:]).mounts) == MOST_MOUNTS
    with pytest.raises(ValidationError, match="at most"):
        settings(*many)


def test_what_is_not_on_this_machine_or_holds_a_socket_is_told(tmp_path: Path) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert why_not_here(SharedFolder(source=str(tmp_path), target="/data")) is None
    assert why_not_here(SharedFolder(source=str(tmp_path / "file"), target="/data")) is None
    assert "is no folder" in str(why_not_here(SharedFolder(source=str(tmp_path / "none"), target="/data")))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "deep/er/s"))
        assert "holds a socket" in str(why_not_here(SharedFolder(source=str(tmp_path), target="/data")))


def test_a_folder_that_is_too_large_to_be_looked_through_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_core.sandbox.mounts.MOST_ENTRIES", 3)
    shared = SharedFolder(source=str(tmp_path), target="/data")
    for name in "abc":
        (tmp_path / name).touch()
    assert why_not_here(shared) is None
    (tmp_path / "d").touch()
    assert "more than 3 files and folders" in str(why_not_here(shared))
    assert "smaller folder" in str(why_not_here(shared))


def test_options_are_read_with_the_kernel_s_escapes() -> None:
    assert mount_options(SEEN)["/my data"] == {"rw", "relatime"}
    assert mount_options("nonsense\n\n") == {}


@pytest.mark.parametrize(
    ("target", "said"), [("/my data", "can be written to"), ("/nowhere", "nothing is mounted"), ("/data", None)]
)
async def test_a_mount_is_believed_when_it_was_seen_from_inside(target: str, said: str | None) -> None:
    provider = FakeProvider(lambda launch, sandbox: ExecResult(exit_code=0, stdout=SEEN.encode()))
    sandbox = await provider.create("box", SandboxSpec())
    mounts = [DATA, Mount(source="/srv/x", target=target)]
    if said is None:
        assert await must_be_read_only(sandbox, mounts[:1]) == ["/data"]
        return
    with pytest.raises(SandboxUnavailable, match=said):
        await must_be_read_only(sandbox, mounts)


async def test_a_lent_sandbox_states_its_mounts_and_one_that_lacks_them_is_not_lent() -> None:
    seen = SEEN.encode()
    provider = FakeProvider(lambda launch, sandbox: ExecResult(exit_code=0, stdout=seen))
    lender = Lender(provider, LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=None), LeaseTable())
    spec = SandboxSpec(mounts=[DATA])
    await lender.open(NoNetwork(), trial=spec)
    assert (await lender.lend("box-1", spec)).enforced.mounts == ["/data"]
    assert (await lender.lend("box-2", SandboxSpec())).enforced.mounts == []
    seen = b""
    with pytest.raises(SandboxUnavailable, match="nothing is mounted"):
        await lender.lend("box-3", spec)
    with pytest.raises(SandboxUnavailable, match="nothing is mounted"):
        await lender.open(NoNetwork(), trial=spec)
    assert [name for name, box in provider.sandboxes.items() if not box.closed] == ["box-1", "box-2"]
    await lender.close()
