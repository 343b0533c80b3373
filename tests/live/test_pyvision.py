"""PyVision's clues and its living process in a real sandbox: what a model's code finds there, and after a time-out."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.pyvision.drawn_videos import draw_video_questions
from gym_core.errors import InvalidTask, SandboxUnavailable
from gym_core.sandbox import toolkit
from gym_core.sandbox.contract import Sandbox, SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from gym_core.types.wire import JsonObject
from tests.live.gyms import needs_toolkit
from tests.unit.pyvision.servers import TASK, png, session_of, text_of

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_toolkit]


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    provider = LocalProvider(LocalSandboxConfig(state_dir=str(tmp_path / "state"), toolkit=str(toolkit.toolkit_dir())))
    try:
        await provider.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    try:
        yield await provider.create("clues", SandboxSpec(resources=SandboxResources(memory_mib=2048)))
    finally:
        await provider.aclose()


def video_task() -> JsonObject:
    (clue,) = draw_video_questions(1, 1)[0].clues
    return TASK | {"videos": [clue.named, clue.named]}  # type: ignore[union-attr]  # of videos


async def test_a_figure_is_a_variable_and_a_time_out_leaves_the_clues(sandbox: Sandbox) -> None:
    async with session_of(sandbox, png(30, 20), png(40, 10), python_runtime={"timeout_s": 2.0}) as played:
        shown = await played.run("mine = 1\nfig = plt.figure(figsize=(2, 1)); plt.plot([1, 2]); fig.show()")
        crop = await played.run("image_clue_2.crop((0, 0, 50, 50))")
        late = await played.run("import subprocess\nsubprocess.Popen(['sleep', '1234'])\nwhile True: pass")
        after = await played.run("print(image_clue_1.size, image_clue_2.size, image_clue_3.size, 'mine' in globals())")
    assert "<image_clue_2>\n(200x100)\n</image_clue_2>" in text_of(shown)
    assert "<image_clue_3>\n(50x50)\n</image_clue_3>" in text_of(crop)
    told = text_of(late)
    assert told.startswith("Text Result (the code did not run to its end):")
    assert "did not end within 2 seconds" in told
    assert text_of(after) == "Text Result:\n(40, 10) (200, 100) (50, 50) False"


async def test_videos_have_decords_interface_and_are_there_again(sandbox: Sandbox) -> None:
    async with session_of(sandbox, task=video_task()) as played:
        first = await played.run(
            "from decord import VideoReader, cpu\nv = video_clue_1\n"
            "print(v[0].asnumpy().shape, v.get_batch([0, -1]).asnumpy().shape, v.get_avg_fps())\n"
            "print(v.get_frame_timestamp(6), len(v) == len(video_clue_0))"
        )
        await played.run("import os\nos._exit(1)")
        again = await played.run("print(video_clue_0[3].shape)")
    assert text_of(first) == "Text Result:\n(120, 160, 3) (2, 120, 160, 3) 12.0\n[0.5        0.58333333] True"
    assert text_of(again) == "Text Result:\n(120, 160, 3)"


async def test_a_broken_video_is_found_before_the_model_is_asked(sandbox: Sandbox) -> None:
    task = TASK | {"videos": [{"url": "data:video/mp4;base64,AAAA"}]}
    with pytest.raises(InvalidTask, match="the video in the row cannot be read"):
        async with session_of(sandbox, task=task):
            raise AssertionError("a session of it")
