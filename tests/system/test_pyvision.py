"""The documented commands of pyvision_image and pyvision_video, through real services and real sandboxes."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.pyvision.clues import VideoClue
from benchmarks.pyvision.drawn_videos import draw_video_questions
from gym_core.config.roots import INSTALL_DIR
from gym_core.sandbox import toolkit
from gym_core.types.wire import JsonObject
from resources_servers.pyvision.videos import InlineVideo
from tests.system.house import Ended, House

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not toolkit.is_built(), reason="no toolkit: run `gym sandbox build`"),
]


def settle(house: House, name: str, *, args: str = "") -> None:
    """The benchmark in the house, so that its data are written there; one question of each kind, or other arguments."""
    for folder in ("pyvision", name):
        target = house.cwd / "benchmarks" / folder
        shutil.copytree(
            INSTALL_DIR / "benchmarks" / folder, target, ignore=shutil.ignore_patterns("data", "__pycache__")
        )
    config = house.cwd / "benchmarks" / name / "config.yaml"
    text = config.read_text()
    assert "seed: 0, per_kind: 6" in text
    config.write_text(text.replace("seed: 0, per_kind: 6", args or "seed: 5, per_kind: 1"))


async def play(house: House, name: str, *words: str, prepares: bool = True) -> tuple[Ended, list[JsonObject]]:
    output = house.folder / "out" / "x.jsonl"
    if prepares:
        prepared = await house.run("eval", "prepare", "--benchmark", name, *words)
        assert prepared.code == 0, prepared.err
    ended = await house.run(
        "eval", "run", "--benchmark", name, "--model-type", "scripted_model", "--output", str(output), *words,
        timeout_s=240,
    )  # fmt: skip
    await house.all_gone()
    assert output.is_file(), ended.out + ended.err
    return ended, [json.loads(line) for line in output.read_text().splitlines()]


def observations(row: JsonObject) -> list[JsonObject]:
    return [item for item in row["response"]["output"] if item["type"] == "function_call_output"]


@pytest.mark.parametrize(("name", "tasks", "given"), [("pyvision_image", 4, 1), ("pyvision_video", 3, 0)])
async def test_every_question_is_measured_in_the_living_process(
    house: House, name: str, tasks: int, given: int
) -> None:
    settle(house, name)
    ended, rows = await play(house, name)
    assert ended.code == 0, ended.out + ended.err
    assert len(rows) == tasks
    assets = {path.name for path in (house.folder / "out" / "x_assets").iterdir()}
    for row in rows:
        assert (row["reward"], row["reward_components"]) == (1.0, {"accuracy": 1.0}), row["task_id"]
        assert row["reward_shaping"] == {"tool_use": pytest.approx(0.2)}
        assert (row["end_reason"], row["answer_form"]) == ("DONE", "boxed")
        # The first look goes wrong, and was executed all the same.
        assert (row["code_turns"], row["code_turns_raised"], row["code_turns_useful"]) == (2, 1, 1)
        assert (row["images_shown"], row["format_failures"]) == (1, 0)
        assert row["_gym_agent"]["tool_calls"] == {"python": 2}
        raised, seen = observations(row)
        assert raised["output"].startswith("Text Result (the code did not run to its end):\n")
        before, picture, after = seen["output"]
        first = given + ("two_pictures" in row["task_id"]["task_id"])
        assert before["text"].endswith(f"Image Result:\n<image_clue_{first}>")
        assert after["text"] == f"</image_clue_{first}>"
        assert picture["image_url"].removeprefix("sha256:") in assets
        assert len(row["_gym_capture"]["images"]) == first + 1
    metrics = json.loads((house.folder / "out" / "x_aggregate_metrics.json").read_text())
    assert "code_turns_useful" in json.dumps(metrics)
    # Graded again without a sandbox: the trajectory says it all.
    again = await house.run(
        "eval",
        "rejudge",
        str(house.folder / "out" / "x.jsonl"),
        "--benchmark",
        name,
        "--output",
        str(house.folder / "again.jsonl"),
    )
    assert again.code == 0, again.out + again.err
    regraded = json.loads((house.folder / "again.jsonl").read_text().splitlines()[0])
    assert (regraded["reward"], regraded["code_turns"]) == (1.0, 2)


@pytest.mark.parametrize(
    ("budget", "reason", "failure"),
    [
        ("max_turns=2", "EXCEED_MAX_TURNS", "no_final_answer"),
        ("max_images=1", "EXCEED_MAX_IMAGE_NUM_32", "no_final_answer"),
        ("max_response_tokens=12", "OVER_LENGTH", "output_cap"),
    ],
)
async def test_a_used_up_budget_scores_zero_and_has_its_published_word(
    house: House, budget: str, reason: str, failure: str
) -> None:
    settle(house, "pyvision_image")
    _, rows = await play(house, "pyvision_image", f"++pyvision_image_agent.agent_servers.tool_agent.budgets.{budget}")
    assert len(rows) == 4
    for row in rows:
        assert (row["reward"], row["failure_kind"], row["end_reason"]) == (0.0, failure, reason)
        assert row.get("reward_shaping", {}) == {}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that a sandbox's own user may look into, as pytest's are not."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


def write_official_rows(folder: Path) -> Path:
    """Two questions about videos in files, in the published form."""
    rows = []
    for question in draw_video_questions(9, 2)[:2]:
        (clue,) = question.clues
        assert isinstance(clue, VideoClue)
        (folder / f"{question.id}.mp4").write_bytes(InlineVideo.model_validate(clue.named).content())
        row = {"question": question.question, "answer": question.answer, "video_path": f"{question.id}.mp4"}
        rows.append({"id": question.id, "ability": question.ability, "data_source": "files", **row})
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


async def test_videos_in_a_shared_folder_are_read_and_one_that_is_another_masks_its_row(
    house: House, open_folder: Path
) -> None:
    source = write_official_rows(open_folder)
    settle(house, "pyvision_video", args=f"rows: {source}, inline_mib: 0")
    mounts = f"[{{source: {source.parent}, target: /videos}}]"
    shared = f"++pyvision_video.resources_servers.pyvision.sandbox_config.mounts={mounts}"
    ended, rows = await play(house, "pyvision_video", shared)
    assert ended.code == 0, ended.out + ended.err
    assert [(row["reward"], row["code_turns"]) for row in rows] == [(1.0, 2)] * 2
    changed, _ = sorted(source.parent.glob("*.mp4"))
    changed.write_bytes(changed.read_bytes() + b"\0")
    shutil.rmtree(house.folder / "out")
    reuse = "++reuse_existing_data_preparation=true"
    ended, rows = await play(house, "pyvision_video", shared, reuse, prepares=False)
    by_id = {row["task_id"]["task_id"]: row for row in rows}
    masked = by_id.pop(changed.stem)
    assert (masked["reward"], masked["failure_kind"]) == (None, "invalid_task")
    assert "has the SHA-256" in masked["failure_reason"]
    assert [row["reward"] for row in by_id.values()] == [1.0]
