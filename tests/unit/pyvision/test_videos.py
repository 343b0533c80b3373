"""Videos of rows: which are taken, and the look at them where the model's code runs."""

import base64
import hashlib
import os
import shutil
from pathlib import Path

import pytest

from gym_core.errors import InvalidTask, SandboxError
from gym_core.sandbox.contract import ExecResult, SandboxSpec
from resources_servers.pyvision.grading import PyVisionTask
from resources_servers.pyvision.videos import MAX_INLINE_BYTES, InlineVideo, SharedVideo, place_videos
from tests.fakes.process_sandbox import ProcessSandbox
from tests.fakes.sandbox import FakeSandbox
from tests.unit.datasets.test_video_reader import write_video
from tests.unit.pyvision.servers import make_server, seeding

SHA = "0" * 64


def inline(content: bytes) -> InlineVideo:
    return InlineVideo(url=f"data:video/mp4;base64,{base64.b64encode(content).decode()}")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("video", "why"),
    [
        ({"file": "/etc/passwd", "sha256": SHA}, "no plain name"),
        ({"file": "../clip.mp4", "sha256": SHA}, "no plain name"),
        ({"file": "a/../../clip.mp4", "sha256": SHA}, "no plain name"),
        ({"file": "a//clip.mp4", "sha256": SHA}, "no plain name"),
        ({"file": ".hidden/clip.mp4", "sha256": SHA}, "no plain name"),
        ({"file": "-i.mp4", "sha256": SHA}, "no plain name"),
        ({"file": "a\nb.mp4", "sha256": SHA}, "no plain name"),
        ({"file": "a\x00.mp4", "sha256": SHA}, "no plain name"),
        ({"file": "http://host/clip.mp4", "sha256": SHA}, "no plain name"),
        ({"file": "concat:a.mp4|b.mp4", "sha256": SHA}, "no plain name"),
        ({"file": "x" * 500, "sha256": SHA}, "no plain name"),
        ({"file": "clip.mp4", "sha256": "abc"}, "should match pattern"),
        ({"file": "clip.mp4"}, "sha256: Field required"),
        ({"url": "http://host/clip.mp4"}, "no base64 video data URL"),
        ({"url": "data:image/png;base64,AAAA"}, "no base64 video data URL"),
        ({"url": "data:video/mp4;base64," + "A" * (MAX_INLINE_BYTES * 4 // 3 + 8)}, "larger than 16 MiB"),
        ({"url": "data:video/mp4;base64,AAAA", "sha256": SHA}, "Extra inputs"),
        ("clip.mp4", "videos.0"),
    ],
)
def test_a_row_with_a_hostile_video_is_refused(video: object, why: str) -> None:
    with pytest.raises(InvalidTask, match=why):
        make_server().make_session(seeding({"question": "?", "expected_answer": "1", "videos": [video]}))


def test_videos_in_the_row_and_files_are_told_apart() -> None:
    videos = [{"url": "data:video/mp4;base64,AAAA"}, {"file": "train/Clip 1 (a).mp4", "sha256": SHA}]
    task = PyVisionTask.model_validate({"question": "?", "expected_answer": "1", "videos": videos})
    assert [type(video) for video in task.videos] == [InlineVideo, SharedVideo]


async def test_a_video_that_can_be_read_is_placed(tmp_path: Path) -> None:
    content = write_video(tmp_path / "a.mp4").read_bytes()
    (tmp_path / "box").mkdir()
    sandbox = ProcessSandbox(tmp_path / "box")
    shared = tmp_path / "shared" / "train"
    shared.mkdir(parents=True)
    shutil.copy(tmp_path / "a.mp4", shared / "b.mp4")
    videos = [inline(content), SharedVideo(file="train/b.mp4", sha256=sha256(shared / "b.mp4"))]
    placed = await place_videos(videos, sandbox, shared=str(shared.parent), max_bytes=1 << 20)
    assert placed == [f"{sandbox.workdir}/video_clue_0.video", f"{shared}/b.mp4"]
    assert sandbox.files[placed[0]] == content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none.mp4", "cannot be found: No such file or directory"),
        ("folder", "is no file"),
        ("fifo", "is no file"),
        ("other.mp4", "has the SHA-256 [0-9a-f]{64}, not the row's"),
        ("large.mp4", "has 300000 bytes, more than 200000"),
        ("text.mp4", "cannot be read: InvalidDataError"),
        ("cut.mp4", "cannot be read"),
        ("empty.avi", "holds no frame"),
    ],
)
async def test_a_file_that_is_not_as_the_row_says_is_an_invalid_task(tmp_path: Path, name: str, why: str) -> None:

    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    whole = write_video(tmp_path / "other.mp4").read_bytes()
    (tmp_path / "large.mp4").write_bytes(b"x" * 300_000)
    (tmp_path / "text.mp4").write_bytes(b"no video at all" * 20)
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    write_video(tmp_path / "empty.avi", frames=0)
    path = tmp_path / name
    digest = sha256(path) if path.is_file() and name != "other.mp4" else SHA
    video = SharedVideo(file=name, sha256=digest)
    with pytest.raises(InvalidTask, match=f"the video '{name}' .*{why}"):
        await place_videos([video], ProcessSandbox(tmp_path), shared=str(tmp_path), max_bytes=200_000)


@pytest.mark.slow
async def test_a_broken_video_in_the_row_is_an_invalid_task(tmp_path: Path) -> None:
    with pytest.raises(InvalidTask, match="the video in the row cannot be read"):
        await place_videos([inline(b"nothing")], ProcessSandbox(tmp_path), shared=None, max_bytes=1)


async def test_a_file_without_a_shared_folder_says_what_to_set() -> None:
    sandbox = FakeSandbox("b", SandboxSpec())
    with pytest.raises(InvalidTask, match=r"set sandbox_config\.mounts"):
        await place_videos([SharedVideo(file="a.mp4", sha256=SHA)], sandbox, shared=None, max_bytes=1)


@pytest.mark.parametrize(
    ("result", "error", "why"),
    [
        (ExecResult(exit_code=1, stderr=b"No module named 'av'"), SandboxError, "exit code 1: No module named 'av'"),
        (ExecResult(exit_code=0, stdout=b"{}"), SandboxError, "no look at the row's videos"),
        (ExecResult(exit_code=0, stdout=b'{"mistakes": []}'), SandboxError, "about others"),
        (ExecResult(exit_code=None, timed_out=True), InvalidTask, "could not be looked through within"),
    ],
)
async def test_nobody_could_look(result: ExecResult, error: type[Exception], why: str) -> None:
    sandbox = FakeSandbox("b", SandboxSpec())
    sandbox.on_exec(lambda launch, sandbox: result)
    with pytest.raises(error, match=why):
        await place_videos([inline(b"x")], sandbox, shared=None, max_bytes=1)


async def test_a_row_without_videos_asks_nothing_of_the_sandbox() -> None:
    sandbox = FakeSandbox("b", SandboxSpec())
    assert await place_videos([], sandbox, shared=None, max_bytes=1) == []
    assert sandbox.launches == []
