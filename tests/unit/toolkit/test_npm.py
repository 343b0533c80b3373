"""What comes from npm is checked before it is used, and what goes wrong is said. `npm` here is a small script."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.toolkit.npm import NpmClient
from gym_core.sandbox.toolkit.pins import NpmBinary, PinnedWheel

PROGRAM = b"#!/bin/sh\necho hello\n"
NODE = PinnedWheel("no-such-package", "0", "0" * 64)


def _tarball(member: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(member)
        info.size = len(PROGRAM)
        archive.addfile(info, io.BytesIO(PROGRAM))
    return buffer.getvalue()


class FakeNpm:
    """An `npm` on PATH that leaves the tarball it was given, or fails with a word."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        (folder / "node").write_text("")
        (folder / "node").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.says("exit 9")

    def says(self, script: str) -> None:
        npm = self._folder / "npm"
        npm.write_text(f"#!/bin/sh\n{script}\n")
        npm.chmod(0o755)

    def serves(self, tarball: bytes) -> None:
        (self._folder / "served").write_bytes(tarball)
        self.says(f'echo "$@" >{self._folder}/called; cp {self._folder}/served ./scope-thing-1.0.tgz')

    @property
    def called_with(self) -> str:
        return (self._folder / "called").read_text().strip()


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNpm:
    (tmp_path / "path").mkdir()
    return FakeNpm(tmp_path / "path", monkeypatch)


def _pin(tarball: bytes, program: bytes = PROGRAM) -> NpmBinary:
    return NpmBinary(
        package="@scope/thing",
        version="1.0",
        member="package/bin/thing",
        tarball_sha256=hashlib.sha256(tarball).hexdigest(),
        binary_sha256=hashlib.sha256(program).hexdigest(),
    )


def test_a_program_is_taken_out_of_its_tarball_and_no_script_of_the_package_runs(npm: FakeNpm, tmp_path: Path) -> None:
    tarball = _tarball("package/bin/thing")
    npm.serves(tarball)
    NpmClient(NODE, tmp_path / "downloads").fetch(_pin(tarball), tmp_path / "thing")
    assert (tmp_path / "thing").read_bytes() == PROGRAM
    assert os.access(tmp_path / "thing", os.X_OK)
    assert npm.called_with.startswith("pack @scope/thing@1.0 --ignore-scripts")


def test_another_tarball_is_refused_with_both_hashes(npm: FakeNpm, tmp_path: Path) -> None:
    pinned, served = _tarball("package/bin/thing"), _tarball("package/bin/evil")
    npm.serves(served)
    with pytest.raises(SandboxUnavailable) as error:
        NpmClient(NODE, tmp_path / "downloads").fetch(_pin(pinned), tmp_path / "thing")
    assert hashlib.sha256(pinned).hexdigest() in str(error.value)
    assert hashlib.sha256(served).hexdigest() in str(error.value)
    assert not (tmp_path / "thing").exists()


def test_another_program_in_the_right_tarball_is_refused(npm: FakeNpm, tmp_path: Path) -> None:
    tarball = _tarball("package/bin/thing")
    npm.serves(tarball)
    with pytest.raises(SandboxUnavailable, match="package/bin/thing of @scope/thing@1.0 is not what was pinned"):
        NpmClient(NODE, tmp_path / "downloads").fetch(_pin(tarball, program=b"other"), tmp_path / "thing")


def test_a_tarball_without_the_program_says_so(npm: FakeNpm, tmp_path: Path) -> None:
    tarball = _tarball("package/elsewhere")
    npm.serves(tarball)
    with pytest.raises(SandboxUnavailable, match="holds no file 'package/bin/thing'"):
        NpmClient(NODE, tmp_path / "downloads").fetch(_pin(tarball), tmp_path / "thing")


def test_an_unreachable_registry_is_told_in_npms_own_words(npm: FakeNpm, tmp_path: Path) -> None:
    npm.says("echo 'npm error code ENOTFOUND' >&2; exit 1")
    with pytest.raises(SandboxUnavailable, match=r"fetching @scope/thing@1.0 (?s:.*)ENOTFOUND"):
        NpmClient(NODE, tmp_path / "downloads").fetch(_pin(b""), tmp_path / "thing")
