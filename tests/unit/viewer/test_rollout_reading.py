"""A rollout is read into turns that name their calls, pictures and texts."""

from dataclasses import replace
from pathlib import Path

import pytest

from gym_core.types.rollout import EpisodeTiming
from gym_core.types.session import CaptureSummary
from gym_core.viewer.rollout import RolloutReading, read_rollout, time_spans
from gym_core.viewer.run import NotInRun, ViewedRun
from gym_core.viewer.texts import MAX_SLICE, Texts
from gym_core.viewer.types import MessagePart, TextPart, ToolPart
from tests.fakes.made_run import MadeRollout, MadeRun, MadeTask
from tests.fakes.made_runs import growing_run, made_picture, made_rollout, write_long_rollout
from tests.fakes.made_sessions import MadeTurn


def _reading(run: MadeRun, place: int = 0) -> RolloutReading:
    viewed = ViewedRun(run.path)
    viewed.refresh()
    return read_rollout(viewed, viewed.rollout_ids()[place], lambda sha256: f"/images/{sha256}")


def _one(folder: Path, rollout: MadeRollout) -> RolloutReading:
    run = MadeRun(folder)
    run.plan([rollout])
    run.write([rollout])
    return _reading(run)


def test_a_turn_is_one_answer_with_what_its_tools_gave_back(tmp_path: Path) -> None:
    view = _one(tmp_path, made_rollout(0, n_turns=4)).view(None, None)
    assert [turn.number for turn in view.turns.turns] == [1, 2, 3, 4]
    assert [turn.call.index for turn in view.turns.turns if turn.call] == [0, 1, 2, 3]
    first = view.turns.turns[0]
    tool = next(part for part in first.parts if isinstance(part, ToolPart))
    assert tool.name == "bash"
    assert tool.command is not None
    assert "crop" in tool.command.text
    assert tool.output is not None
    assert first.tools_s is not None
    assert view.turns.turns[-1].tools_s is None
    assert view.health.calls == 4


def test_every_picture_is_listed_once_and_says_whether_the_model_got_it(tmp_path: Path) -> None:
    run = write_long_rollout(tmp_path, n_turns=6, n_pictures=3)
    view = _reading(run).view(None, None)
    assert len(view.pictures) == 4
    assert view.pictures[0] == view.prompts[0].images[0]
    assert all(picture.seen and picture.url.endswith(picture.sha256) for picture in view.pictures)
    assert view.pictures[1].width == 640
    assert {drift.reason for drift in view.health.drifts} == set()


def test_a_drift_stands_at_its_turn(tmp_path: Path) -> None:
    view = _reading(write_long_rollout(tmp_path, n_turns=24, n_pictures=2)).view(None, None)
    assert [turn.number for turn in view.turns.turns if turn.call and turn.call.drift] == [21]
    assert view.row.flags == ["drift"]


def test_without_captures_the_trajectory_is_shown_all_the_same(tmp_path: Path) -> None:
    rollout = made_rollout(0, n_turns=3)
    run = MadeRun(tmp_path)
    run.plan([rollout])
    run.write([rollout])
    for file in run.files.captures.iterdir():
        file.unlink()
    view = _reading(run).view(None, None)
    assert [turn.call for turn in view.turns.turns] == [None, None, None]
    assert "not in the captures folder" in view.health.problem


def test_pictures_that_are_none_have_no_address(tmp_path: Path) -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>'
    disguised = b"\x89PNG\r\n\x1a\n<script>1</script>"
    turns = [
        MadeTurn(text="look", tool="read", arguments={}, output="read", pictures=[svg, disguised, made_picture(1)])
    ]
    view = _one(tmp_path, MadeRollout(MadeTask("q", "1", image_url="http://evil.invalid/x.png"), turns)).view(
        None, None
    )
    addresses = [(bool(picture.url), bool(picture.problem)) for picture in view.pictures]
    assert addresses == [(False, True), (False, True), (False, True), (True, False)]


def test_a_long_text_comes_in_steps(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(20_000))
    turns = [MadeTurn(text="x", tool="bash", arguments={"command": "seq"}, output=text), MadeTurn(text="y")]
    reading = _one(tmp_path, MadeRollout(MadeTask("q", "1"), turns))
    tool = reading.turns(0).turns[0].parts[-1]
    assert isinstance(tool, ToolPart)
    assert tool.output is not None
    seen = tool.output.text
    while len(seen) < tool.output.length:
        step = reading.text(tool.output.id, len(seen))
        assert 0 < len(step.text) <= MAX_SLICE
        seen += step.text
    assert seen == text


@pytest.mark.parametrize("id", ["", "r-99", "r--1", "x-0", "c0", "c99-0", "r-٣", "c٣-0"])
def test_a_text_that_is_not_there_is_refused(tmp_path: Path, id: str) -> None:
    reading = _one(tmp_path, made_rollout(0, n_turns=2))
    with pytest.raises(NotInRun):
        reading.text(id, 0)


def test_a_call_is_shown_as_it_was_sent(tmp_path: Path) -> None:
    reading = _one(tmp_path, made_rollout(0, n_turns=4))
    call = reading.call(1)
    assert call.facts.index == 1
    assert sum(len(message.images) for message in call.messages) >= 1
    assert call.answer is not None
    with pytest.raises(NotInRun):
        reading.call(4)


def test_a_rollout_that_is_played_is_told_from_its_calls_so_far(tmp_path: Path) -> None:
    with growing_run(tmp_path, n_first=1, n_tasks=3, pause_s=0) as growing:
        growing.begin(2)
        viewed = ViewedRun(growing.run.path)
        viewed.refresh()
        (session,) = viewed.detail().in_flight
        view = read_rollout(viewed, session.rollout, lambda sha256: sha256).view(None, None)
    assert view.state == "running"
    assert view.grade is None
    assert [turn.call.index for turn in view.turns.turns if turn.call] == [0, 1]
    assert view.prompts[-1].images
    kinds = {type(part) for turn in view.turns.turns for part in turn.parts}
    assert kinds <= {TextPart, ToolPart, MessagePart}
    assert ToolPart in kinds


def test_the_parts_of_the_time_add_up_to_the_whole() -> None:
    timing = EpisodeTiming(total=20, seed=2, open=1, respond=15, verify=1, model=9)
    spans = time_spans(timing, CaptureSummary(session_id="s", queued_s=2))
    assert {span.name: span.seconds for span in spans} == {
        "seed": 2, "open": 1, "model": 9, "queued": 2, "tools": 4, "verify": 1, "other": 1,
    }  # fmt: skip


def test_a_short_text_needs_no_second_step() -> None:
    clip = Texts("r-", limit=5).clip("12345")
    assert (clip.text, clip.length, clip.id) == ("12345", 5, "")


def test_the_terms_for_trainers_stand_beside_the_reward(tmp_path: Path) -> None:
    rollout = replace(made_rollout(0, n_turns=2), shaping={"tool_use": 0.25})
    grade = _one(tmp_path, rollout).view(None, None).grade
    assert grade is not None
    assert (grade.reward, grade.shaping) == (rollout.reward, {"tool_use": 0.25})
