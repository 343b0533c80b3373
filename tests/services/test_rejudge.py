"""A saved run's answers graded again through the real resources server: a run of its own beside the first."""

import json
from pathlib import Path

from gym_core.errors import FailureKind, JudgeError, SandboxLost
from gym_core.rollout.rejudged import compare_grades
from gym_core.rollout.saved import SavedRun
from gym_core.rollout.sink import read_rows
from gym_core.servers.resources import Submission
from gym_core.types.run import Rejudge, RunState
from gym_core.types.verification import TOOL_USE, Verification
from gym_core.types.wire import JsonObject
from resources_servers.echo.app import EchoServer, EchoTask
from tests.fakes.gym import in_process_gym
from tests.fakes.saved_runs import echo_run, ended


class Moody(EchoServer):
    """A grader that a test can make fail, or turn round."""

    fails: bool = False
    is_contrary: bool = False
    tool_use: float | None = None

    async def verify(self, submission: Submission[EchoTask]) -> Verification:
        if self.fails:
            raise JudgeError("no verdict")
        grade = await super().verify(submission)
        if self.tool_use is not None:
            grade = grade.model_copy(update={"shaping": {TOOL_USE: self.tool_use}})
        return Verification(reward=1.0 - (grade.reward or 0.0)) if self.is_contrary else grade


NEW_JUDGE: JsonObject = {"servers": {"echo": {"judge": "second"}, "agent": {"x": 1}, "policy_model": {"model": "none"}}}


def rejudge(folder: Path, *, only_masked: bool = False) -> Rejudge:
    return Rejudge(path=str(folder / "out.jsonl"), only_masked=only_masked)


def rewards(path: Path) -> list[float | None]:
    rows = sorted(read_rows(path), key=lambda row: row["_ng_task_index"])
    return [row["reward"] for row in rows]


async def test_answers_are_graded_again_beside_the_old_ones_and_nothing_is_played(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path, resources_type=Moody) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl", n_tasks=2))
        before = {path: path.read_bytes() for path in (first.files.rollouts, first.files.manifest, first.files.metrics)}
        gym.endpoint.requests.clear()
        assert isinstance(gym.resources, Moody)
        gym.resources.is_contrary = True
        run = await ended(
            echo_run(gym, tmp_path, "out_rejudged-x.jsonl", saved_run=rejudge(tmp_path), identity=NEW_JUDGE)
        )
    assert (run.state, run.message, gym.endpoint.requests) == (RunState.DONE, "", [])
    assert (rewards(first.files.rollouts), rewards(run.files.rollouts)) == ([1.0, 0.0], [0.0, 1.0])
    assert {path: path.read_bytes() for path in before} == before
    old, new = ({row["_ng_rollout_id"]: row for row in read_rows(r.files.rollouts)} for r in (first, run))
    assert all(new[name]["_gym_capture"] == row["_gym_capture"] for name, row in old.items())
    assert all(new[name]["_gym_timing"] == row["_gym_timing"] for name, row in old.items())


async def test_a_rejudged_run_says_what_it_is_and_has_its_pictures_and_calls(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path, resources_type=Moody) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl"))
        run = await ended(echo_run(gym, tmp_path, "new.jsonl", saved_run=rejudge(tmp_path), identity=NEW_JUDGE))
    before, after = (SavedRun(r.files.rollouts).manifest for r in (first, run))
    assert before
    assert after
    assert after.derived_from
    assert (after.derived_from.kind, after.derived_from.run_hash) == ("rejudge", before.run_hash)
    assert after.identity["servers"] == {
        "echo": {"judge": "second"}, "agent": {}, "policy_model": {"model": "tiny"},
    }  # fmt: skip
    assert (after.endpoint, after.run_hash != before.run_hash) == (before.endpoint, True)
    for folder in ("assets", "captures"):
        old, new = (sorted(p.name for p in getattr(r.files, folder).iterdir()) for r in (first, run))
        assert (old, bool(new)) == (new, True)
    assert json.loads(run.files.metrics.read_text())["coverage"]["finished"] == 1


async def test_only_masked_rows_are_judged_when_asked_and_a_judge_that_fails_again_masks(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path, resources_type=Moody) as gym:
        assert isinstance(gym.resources, Moody)
        gym.endpoint.rule = lambda _: "teapot"
        await ended(echo_run(gym, tmp_path, "out.jsonl"))
        gym.resources.fails = True
        first = await ended(echo_run(gym, tmp_path, "out.jsonl", n_tasks=2))
        assert rewards(first.files.rollouts) == [1.0, None]
        use = rejudge(tmp_path, only_masked=True)
        again = await ended(echo_run(gym, tmp_path, "new.jsonl", saved_run=use, identity=NEW_JUDGE))
        assert (again.state, rewards(again.files.rollouts)) == (RunState.DONE, [1.0, None])
        gym.resources.fails = False
        gym.resources.is_contrary = True
        resumed = await ended(echo_run(gym, tmp_path, "new.jsonl", saved_run=use, identity=NEW_JUDGE))
    assert (resumed.state, rewards(resumed.files.rollouts)) == (RunState.DONE, [1.0, 1.0])
    report = compare_grades(SavedRun(first.files.rollouts), SavedRun(resumed.files.rollouts))
    assert (report.rows, report.graded, report.changed, report.missing) == (2, 1, 1, 0)
    assert (report.changes[0].before, report.changes[0].after) == ("masked (judge_failed)", "1")


async def test_what_never_reached_grading_is_taken_over(tmp_path: Path) -> None:
    class Lost(Moody):
        async def seed(self, request: object) -> object:  # type: ignore[override]
            raise SandboxLost("it was the test")

    async with in_process_gym(tmp_path, resources_type=Moody) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        await ended(echo_run(gym, tmp_path, "out.jsonl"))
    async with in_process_gym(tmp_path / "lost", resources_type=Lost) as gym:
        first = await ended(
            echo_run(gym, tmp_path, "out.jsonl", n_tasks=2, max_rollout_attempts=1, num_samples_in_parallel=1)
        )
        assert rewards(first.files.rollouts) == [1.0, None]
    async with in_process_gym(tmp_path / "good", resources_type=Moody) as gym:
        run = await ended(echo_run(gym, tmp_path, "new.jsonl", saved_run=rejudge(tmp_path), identity=NEW_JUDGE))
    rows = sorted(read_rows(run.files.rollouts), key=lambda row: row["_ng_task_index"])
    assert [row["failure_kind"] for row in rows] == [None, FailureKind.SANDBOX_LOST]


async def test_a_run_without_manifest_or_with_nothing_to_judge_is_refused_in_words(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path, resources_type=Moody) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl"))
        use = rejudge(tmp_path, only_masked=True)
        nothing = await ended(echo_run(gym, tmp_path, "new.jsonl", saved_run=use))
        over = await ended(echo_run(gym, tmp_path, "out.jsonl", saved_run=rejudge(tmp_path)))
        manifest = first.files.manifest.read_bytes()
        first.files.manifest.unlink()
        unknown = await ended(echo_run(gym, tmp_path, "new.jsonl", saved_run=rejudge(tmp_path)))
        first.files.manifest.write_bytes(manifest)
        first.files.rollouts.write_text("not ours\nnor this\n")
        foreign = await ended(echo_run(gym, tmp_path, "new.jsonl", saved_run=rejudge(tmp_path)))
    assert "no row lacks only its grade" in nothing.message
    assert "would go over the saved run" in over.message
    assert "copy it along" in unknown.message
    assert "the line is no rollout of a run" in foreign.message
    assert {r.progress().is_refused for r in (nothing, over, unknown, foreign)} == {True}


async def test_other_shaping_alone_is_told_and_no_score_moves(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path, resources_type=Moody) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl", n_tasks=1))
        assert isinstance(gym.resources, Moody)
        gym.resources.tool_use = 0.25
        run = await ended(
            echo_run(gym, tmp_path, "out_rejudged-x.jsonl", saved_run=rejudge(tmp_path), identity=NEW_JUDGE, n_tasks=1)
        )
    (row,) = read_rows(run.files.rollouts)
    assert (row["reward"], row["reward_shaping"]) == (1.0, {"tool_use": 0.25})
    metrics = [json.loads(r.files.metrics.read_bytes()) for r in (first, run)]
    assert metrics[0]["reward"] == metrics[1]["reward"]
    report = compare_grades(SavedRun(first.files.rollouts), SavedRun(run.files.rollouts))
    assert (report.reworded, report.raised) == (1, 0)
    assert (report.changes[0].before, report.changes[0].after) == ("1", "1 +0.25 tool_use")
