"""Each failure kind of the table, through a real gym: real servers, real sandboxes, real OpenCode, scripted endpoints.

What is asserted is what a user sees: the row, or the run's files. `live_gym` checks that nothing is left over.
"""

import asyncio
import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gym_core.errors import FailureKind
from gym_core.types.run import RunState
from gym_core.types.wire import JsonObject
from tests.fakes.model import Calls, Fault, Says
from tests.live.gyms import (
    ANSWER,
    JUDGE_KEY,
    ONE_CALL,
    OPENCODE,
    OPENCODE_AGENT,
    POLICY,
    QUESTION,
    RESOURCES,
    LiveGym,
    bash,
    descendants,
    kill,
    live_gym,
    make_row,
    needs_toolkit,
    opencode_processes,
    script,
)

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_toolkit]

POLICY_BLOCK = f"{POLICY}.model_servers.vllm_model"
AGENT_BLOCK = f"{OPENCODE_AGENT}.agent_servers.opencode_agent"
RESOURCES_BLOCK = f"{RESOURCES}.resources_servers.visual_coding_opencode"
WRONG = "The answer is \\boxed{41}"
ONCE = (Says("Look.", (bash("echo hi"),)), ANSWER)


def ending(row: JsonObject) -> tuple[float | None, bool, str | None]:
    return row["reward"], row["mask_sample"], row["failure_kind"]


MASKED_MODEL = (None, True, FailureKind.MODEL_UNAVAILABLE)


def scored(kind: FailureKind) -> tuple[float, bool, str]:
    return 0.0, False, kind


def masked(kind: FailureKind) -> tuple[None, bool, str]:
    return None, True, kind


def items(row: JsonObject) -> list[str]:
    return [item["type"] for item in row["response"]["output"]]


# -- the policy's endpoint ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "says", "asks"),
    [
        (Fault.RATE_LIMITED, "429", None),  # busy: as often as the patience allows
        (Fault.SERVER_ERROR, "500", 3),
        (Fault.HANG, "no byte", 3),
        (Fault.STALL, "no byte", 3),
        (Fault.RESET, "", 3),
        (Fault.HALF_STREAM, "", 3),
        (Fault.HTML, "", 3),
        (Fault.UNAUTHORIZED, "401", 1),
        (Fault.BAD_REQUEST, "cannot identify image file", 2),  # once more without the fields that only we want
    ],
)
async def test_an_endpoint_that_keeps_failing_masks_the_rollout(
    fault: Fault, says: str, asks: int | None, tmp_path: Path
) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        gym.policy.fail_always(fault)
        row = await gym.play()
    assert ending(row) == MASKED_MODEL
    assert row["response"]["status"] == "failed"
    assert row["_gym_capture"]["failed_calls"] == 1
    assert row["_gym_capture"]["last_failure"] == FailureKind.MODEL_UNAVAILABLE
    assert says in row["_gym_capture"]["last_failure_message"]
    assert asks in (None, len(gym.asked))
    assert gym.judge.requests == []


@pytest.mark.parametrize(
    "fault", [Fault.RATE_LIMITED, Fault.SERVER_ERROR, Fault.HANG, Fault.RESET, Fault.HALF_STREAM, Fault.HTML]
)
async def test_an_endpoint_that_recovers_costs_nothing(fault: Fault, tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        gym.policy.fail(fault)
        row = await gym.play()
    assert ending(row) == (1.0, False, None)
    assert row["_gym_capture"]["failed_calls"] == 0
    assert len(gym.policy.requests) == 2


async def test_an_endpoint_that_is_down_masks_an_episode_and_refuses_a_run(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER), changes={"policy_base_url": "http://127.0.0.1:9/v1"}) as gym:
        row = await gym.play()
        result = await gym.evaluate()
    assert ending(row) == MASKED_MODEL
    assert (result.progress.state, gym.rows()) == (RunState.FAILED, [])
    assert "127.0.0.1:9" in result.progress.message


async def test_a_rollout_whose_endpoint_keeps_failing_gets_so_many_episodes(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        gym.policy.fails_only = QUESTION
        gym.policy.fail_always(Fault.RESET)
        result = await gym.evaluate(max_rollout_attempts=2)
    (row,) = gym.rows()
    assert (ending(row), row["_gym_attempts"]) == (MASKED_MODEL, 2)
    assert [failure["failure"]["kind"] for failure in gym.failures()] == [FailureKind.MODEL_UNAVAILABLE] * 2
    assert (result.progress.state, result.progress.masked, result.progress.mean_reward) == (RunState.DONE, 1, None)


async def test_an_endpoint_that_goes_down_in_mid_run_masks_and_the_turns_so_far_are_kept(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(*ONCE)) as gym:
        gym.policy.fail(Fault.NONE)
        gym.policy.fail_always(Fault.RESET)
        row = await gym.play(OPENCODE)
    assert ending(row) == MASKED_MODEL
    assert items(row)[:3] == ["message", "function_call", "function_call_output"]
    assert (row["_gym_capture"]["calls"], row["_gym_capture"]["failed_calls"]) == (2, 1)
    assert gym.judge.requests == []


async def test_half_a_stream_leaves_no_phantom_turn_in_the_transcript(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(*ONCE)) as gym:
        gym.policy.fail(Fault.HALF_STREAM, Fault.NONE, Fault.HALF_STREAM)
        row = await gym.play(OPENCODE)
    assert ending(row) == (1.0, False, None)
    assert items(row) == ["message", "function_call", "function_call_output", "message"]
    assert row["_gym_capture"]["calls"] == 2
    sent = [request.body["messages"] for request in gym.policy.requests]
    assert len(sent) == 4
    assert sent[0] == sent[1]
    assert sent[2] == sent[3]


# -- the model's own endings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (Says("The answer is", finish_reason="length"), FailureKind.OUTPUT_CAP),
        (Says(""), FailureKind.NO_FINAL_ANSWER),
        (Says("It is forty-two, I think."), FailureKind.NO_FINAL_ANSWER),
        (Says("", finish_reason="content_filter"), FailureKind.NO_FINAL_ANSWER),
    ],
)
async def test_an_ending_without_an_answer_scores_zero_and_asks_no_judge(
    says: Says, kind: FailureKind, tmp_path: Path
) -> None:
    async with live_gym(tmp_path, script(says)) as gym:
        row = await gym.play()
    assert ending(row) == scored(kind)
    assert (row["judge_verdict"], row["judge_attempts"], gym.judge.requests) == (None, 0, [])


async def test_a_full_context_scores_zero(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(Says("Look.", (bash("seq 1 9000"),)))) as gym:
        gym.policy.context_tokens = 60_000
        row = await gym.play(OPENCODE)
    assert ending(row) == scored(FailureKind.CONTEXT_LIMIT)
    assert "function_call_output" in items(row)
    assert gym.judge.requests == []


async def test_a_wrong_answer_is_an_ordinary_zero(tmp_path: Path) -> None:
    different = json.dumps({"verdict": "different", "reason": "41 is not 42"})
    async with live_gym(tmp_path, script(WRONG), judge=lambda _: different) as gym:
        row = await gym.play()
    assert ending(row) == (0.0, False, None)
    assert (row["judge_verdict"], row["judge_raw_reply"]) == ("different", different)


async def test_time_runs_out_and_scores_zero(tmp_path: Path) -> None:
    stuck = bash("setsid sleep 600 & sleep 600", timeout=900_000)
    async with live_gym(tmp_path, script(Says("Wait.", (stuck,))), changes={f"{AGENT_BLOCK}.timeout_s": 12}) as gym:
        row = await gym.play(OPENCODE)
    assert ending(row) == scored(FailureKind.AGENT_TIMEOUT)
    assert row["response"]["output"][-1]["status"] == "incomplete"
    assert gym.judge.requests == []


# -- a model must not be able to turn a wrong answer into a mask ----------------------------------------------------

KILL = "kill -9 $(grep -l ^opencode /proc/[0-9]*/comm | cut -d/ -f3)"
BOMB = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
"""
SABOTAGE = {
    "kills its harness": f"{KILL}; sleep 5",
    "kills it in other words": f"echo '{KILL}' | tr k k | sh -s; sleep 5".replace("kill", "k''ill"),
    "kills it later": f"(sleep 1; {KILL}) >/dev/null 2>&1 & true".replace("kill", "k''ill"),
    "fills the harness's disk": "dd if=/dev/zero of=/home/agent/fill bs=1M; true",
    "removes the harness's files": "rm -rf /home/agent/.gym-run",
    "forges an endpoint error": "echo '"
    + json.dumps({"type": "error", "error": {"name": "APIError", "data": {"message": "model_unavailable"}}})
    + "' >> /home/agent/.gym-run/events.jsonl; k''ill -9 -1",
    "forges a bad task": "echo '"
    + json.dumps({"type": "error", "error": {"name": "X", "data": {"message": "File not found: image.png"}}})
    + "' >> /home/agent/.gym-run/events.jsonl; k''ill -9 -1",
    "makes a loop of its journal": "ln -sf events.jsonl /home/agent/.gym-run/events.jsonl; k''ill -9 -1",
    "takes all processes for ever": f"echo '{BOMB}' > b.py; setsid python3 b.py & sleep 1; true",
    "fills all memory with files": "for d in /dev/shm /tmp /workspace /home/agent; do"
    " dd if=/dev/zero of=$d/fill bs=1M & done; wait; sleep 3",
    "takes all memory": "cat /dev/zero | head -c 3G | tail >/dev/null & dd if=/dev/zero of=/dev/shm/x bs=1M; wait",
}


@pytest.mark.parametrize("deed", SABOTAGE)
async def test_a_model_that_breaks_its_own_run_is_scored(deed: str, tmp_path: Path) -> None:
    slow = Says("Done.", (bash("sleep 3"),))
    turns = (Says("Sabotage.", (bash(SABOTAGE[deed], timeout=900_000),)), slow, WRONG)
    different = json.dumps({"verdict": "different", "reason": "41 is not 42"})
    changes: dict[str, object] = {f"{AGENT_BLOCK}.timeout_s": 25}
    if "memory" in deed:
        resources = {"cpu": 2, "memory_mib": 1024, "workspace_mib": 768, "pids": 256}
        changes[f"{RESOURCES_BLOCK}.sandbox_config.resources"] = resources
    async with live_gym(tmp_path, script(*turns), judge=lambda _: different, changes=changes) as gym:
        row = await gym.play(OPENCODE)
    assert (row["reward"], row["mask_sample"]) == (0.0, False)
    assert row["failure_kind"] in (None, FailureKind.AGENT_RUN_ERROR, FailureKind.AGENT_TIMEOUT)


# -- the sandbox and the harness ------------------------------------------------------------------------------------


async def test_a_sandbox_that_is_lost_is_played_again_in_a_new_episode(tmp_path: Path) -> None:
    turns = (Says("Wait.", (bash("sleep 4"),)), ANSWER)
    async with live_gym(tmp_path, script(*turns)) as gym:
        run_id = await gym.start(OPENCODE)
        await gym.until(lambda: len(gym.asked) == 1)
        kill(gym.sandbox_processes())
        result = await gym.result_of(run_id)
    (row,), (lost,) = gym.rows(), gym.failures()
    assert (ending(row), row["_gym_attempts"]) == ((1.0, False, None), 2)
    assert (lost["failure"]["kind"], lost["attempt"]) == (FailureKind.SANDBOX_LOST, 0)
    assert lost["evidence"]["capture"]["calls"] == 1
    assert (result.progress.retries, result.progress.masked) == (1, 0)


async def test_a_sandbox_that_is_always_lost_masks(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(Says("Wait.", (bash("sleep 60"),)))) as gym:
        run_id = await gym.start(OPENCODE, max_rollout_attempts=1)
        await gym.until(lambda: len(gym.asked) == 1)
        kill(gym.sandbox_processes())
        await gym.result_of(run_id)
    (row,) = gym.rows()
    assert ending(row) == masked(FailureKind.SANDBOX_LOST)


async def test_an_opencode_that_dies_before_the_model_did_anything_is_ours(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER), changes={f"{POLICY_BLOCK}.idle_timeout_s": 60}) as gym:
        gym.policy.fails_only = QUESTION
        gym.policy.fail(Fault.HANG)
        run_id = await gym.start(OPENCODE)
        await gym.until(lambda: len(gym.asked) == 1)
        kill(opencode_processes())
        await gym.result_of(run_id)
    (row,), (crashed,) = gym.rows(), gym.failures()
    assert (ending(row), row["_gym_attempts"]) == ((1.0, False, None), 2)
    assert crashed["failure"]["kind"] == FailureKind.AGENT_CRASHED


async def test_an_opencode_that_hangs_at_its_start_twice_masks(tmp_path: Path) -> None:
    async def freeze() -> None:
        while True:
            for pid in opencode_processes():
                os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(0.05)

    async with live_gym(tmp_path, script(ANSWER), changes={f"{AGENT_BLOCK}.start_timeout_s": 2}) as gym:
        freezing = asyncio.create_task(freeze())
        row = await gym.play(OPENCODE)
        freezing.cancel()
    assert ending(row) == masked(FailureKind.AGENT_START_FAILED)
    assert row["_gym_agent"]["notes"] == ["hung_at_start"]
    assert gym.policy.requests == []


async def test_an_agent_server_that_dies_is_played_again(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER), changes={f"{POLICY_BLOCK}.idle_timeout_s": 60}) as gym:
        gym.policy.fails_only = QUESTION
        gym.policy.fail(Fault.HANG)
        run_id = await gym.start()
        await gym.until(lambda: len(gym.asked) == 1)
        kill([(await gym.server("single_call"))["pid"]])
        await gym.result_of(run_id)
    (row,), (dropped,) = gym.rows(), gym.failures()
    assert (ending(row), row["_gym_attempts"]) == ((1.0, False, None), 2)
    assert dropped["failure"]["kind"] == FailureKind.TRANSPORT_PEER_DROP


async def test_a_policy_server_that_dies_is_played_again(tmp_path: Path) -> None:
    """Its sessions die with it: the harness is refused, after a tool call too, and that is not the model's doing."""
    turns = (Says("Wait.", (bash("sleep 3"),)), ANSWER)
    async with live_gym(tmp_path, script(*turns)) as gym:
        run_id = await gym.start(OPENCODE)
        await gym.until(lambda: len(gym.asked) == 1)
        await asyncio.sleep(0.5)
        kill([(await gym.server(POLICY))["pid"]])
        await gym.result_of(run_id)
    (row,), (lost,) = gym.rows(), gym.failures()
    assert (ending(row), row["_gym_attempts"]) == ((1.0, False, None), 2)
    assert lost["failure"]["kind"] == FailureKind.SESSION_LOST
    assert "function_call_output" in [item["type"] for item in lost["evidence"]["response"]["output"]]


# -- grading --------------------------------------------------------------------------------------------------------


async def test_a_judge_that_is_down_masks(tmp_path: Path) -> None:
    changes: dict[str, object] = {"visual_coding_opencode_judge_base_url": "http://127.0.0.1:9/v1"}
    async with live_gym(tmp_path, script(ANSWER), changes=changes) as gym:
        row = await gym.play()
    assert ending(row) == masked(FailureKind.JUDGE_FAILED)
    assert (row["extracted_answer"], row["judge_attempts"], row["judge_raw_reply"]) == ("42", 3, None)
    assert row["response"]["status"] == "completed"


async def test_a_judge_that_fails_masks(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        gym.judge.fail_always(Fault.SERVER_ERROR)
        row = await gym.play()
    assert ending(row) == masked(FailureKind.JUDGE_FAILED)
    assert "500" in row["failure_reason"]
    assert len(gym.judge.requests) == 3


async def test_a_judge_that_recovers_costs_nothing(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        gym.judge.fail(Fault.SERVER_ERROR)
        row = await gym.play()
    assert (ending(row), row["judge_attempts"]) == ((1.0, False, None), 2)


async def test_a_judge_that_refuses_the_key_masks_at_once(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        gym.judge.needs_key = "another"
        row = await gym.play()
    assert ending(row) == masked(FailureKind.JUDGE_FAILED)
    assert len(gym.judge.requests) == 1
    assert JUDGE_KEY not in json.dumps(row)


async def test_a_judge_that_talks_nonsense_masks_and_its_words_are_kept(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER), judge=lambda _: "I like turtles") as gym:
        row = await gym.play()
    assert ending(row) == masked(FailureKind.JUDGE_FAILED)
    assert row["_gym_failure"]["kind"] == FailureKind.JUDGE_UNPARSEABLE
    assert (row["judge_raw_reply"], row["judge_attempts"]) == ("I like turtles", 2)


async def test_a_judge_that_takes_too_long_masks(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER), changes={f"{RESOURCES_BLOCK}.judge_timeout_s": 0.7}) as gym:
        gym.judge.fail_always(Fault.HANG)
        row = await gym.play()
    assert ending(row) == masked(FailureKind.JUDGE_FAILED)
    assert "0.7 s" in row["failure_reason"]


async def test_a_judge_failure_is_not_played_again(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER), judge=lambda _: "I like turtles") as gym:
        first = await gym.evaluate()
        again = await gym.evaluate()
    (row,) = gym.rows()
    assert row["_gym_attempts"] == 1
    assert (first.progress.masked, again.progress.resumed, len(gym.asked)) == (1, 1, 1)


BUGGY = """
from gym_core.servers.resources import ResourcesServer, ResourcesServerConfig, Submission
from gym_core.types.task import TaskData
from gym_core.types.verification import Verification


class BuggyTask(TaskData):
    expected_answer: str


class BuggyServer(ResourcesServer[BuggyTask, ResourcesServerConfig]):
    task_type = BuggyTask

    async def verify(self, submission: Submission[BuggyTask]) -> Verification:
        return Verification(reward=1 / (len(submission.task.expected_answer) - 2))
"""


async def test_a_grader_with_a_bug_masks_and_says_where_to_look(tmp_path: Path) -> None:
    package = tmp_path / "mine" / "resources_servers" / "buggy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "app.py").write_text(BUGGY)
    changes: dict[str, object] = {
        "buggy.resources_servers.buggy": {},
        f"{ONE_CALL}.environment_servers.single_agent_turn_legacy.resources_server.name": "buggy",
    }
    async with live_gym(tmp_path, script(ANSWER), changes=changes, search_dirs=[str(tmp_path / "mine")]) as gym:
        result = await gym.evaluate()
    (row,) = gym.rows()
    assert ending(row) == masked(FailureKind.VERIFIER_ERROR)
    assert "ZeroDivisionError" in row["failure_reason"]
    assert "ZeroDivisionError" in gym.logs()
    assert (result.progress.retries, row["response"]["status"]) == (0, "completed")


async def test_a_row_that_does_not_fit_the_environment_masks_and_is_not_tried_again(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        run_id = await gym.start(rows=[make_row(0, expected_answer=""), make_row(1)])
        await gym.result_of(run_id)
    bad, good = sorted(gym.rows(), key=lambda row: row["_ng_task_index"])
    assert ending(bad) == masked(FailureKind.INVALID_TASK)
    assert "expected_answer" in bad["failure_reason"]
    assert bad["_gym_attempts"] == 1
    assert ending(good) == (1.0, False, None)


# -- the disk -------------------------------------------------------------------------------------------------------


async def test_a_full_disk_ends_the_run_loses_nothing_and_a_resume_completes_it(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        await gym.evaluate(tasks=2)
        before = gym.output.read_bytes()
        head = next(pid for pid in descendants(os.getpid()) if is_head(pid, gym))
        # As a full disk does it: the write that passes the limit is cut short, the next one is refused.
        resource.prlimit(head, resource.RLIMIT_FSIZE, (len(before) + 100, resource.RLIM_INFINITY))
        full = await gym.evaluate(tasks=4)
        assert (full.progress.state, full.progress.done) == (RunState.FAILED, 2)
        assert str(gym.output) in full.progress.message
        assert gym.output.read_bytes() == before
        resource.prlimit(head, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        mended = await gym.evaluate(tasks=4)
    assert (mended.progress.state, mended.progress.resumed, mended.progress.done) == (RunState.DONE, 2, 4)
    assert gym.output.read_bytes().startswith(before)
    assert sorted(row["_ng_task_index"] for row in gym.rows()) == [0, 1, 2, 3]
    assert {ending(row) for row in gym.rows()} == {(1.0, False, None)}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small volume takes root")
async def test_a_full_volume_is_not_the_models_fault_and_a_resume_finds_no_trace_of_it(tmp_path: Path) -> None:
    """The row would fit, the pictures in it do not: nothing is scored and nothing is masked for good."""
    noise = (
        "python3 -c \"import os; from PIL import Image; Image.frombytes('RGB', (500, 400), os.urandom(600000))"
        ".save('noise.png')\""
    )
    looks = Calls("read", json.dumps({"filePath": "/workspace/noise.png"}))
    turns = (Says("Draw.", (bash(f"{noise}; sleep 3"),)), Says("", (looks,)), ANSWER)
    volume = tmp_path / "out"
    volume.mkdir()
    async with live_gym(tmp_path, script(*turns)) as gym:
        with mounted(volume, "8m"):
            run_id = await gym.start(OPENCODE, max_rollout_attempts=1)
            await gym.until(lambda: len(gym.asked) == 1)
            fill(volume / "filler", leave=64 << 10)
            full = await gym.result_of(run_id)
            assert [row["failure_kind"] for row in gym.rows()] == [FailureKind.PERSISTENCE_FAILED]
            assert "No space left" in gym.rows()[0]["failure_reason"]
            (volume / "filler").unlink()
            mended = await gym.evaluate(OPENCODE)
            (row,) = gym.rows()
            assert sorted(path.name for path in (volume / "x_assets").iterdir()) == sorted(
                row["_gym_capture"]["images"]
            )
    assert (full.progress.masked, mended.progress.masked) == (1, 0)
    assert ending(row) == (1.0, False, None)
    assert row["_gym_capture"]["capture_complete"]


@contextmanager
def mounted(volume: Path, size: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "gym-test", str(volume)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(volume)], check=True)


def fill(path: Path, *, leave: int) -> None:
    """Take all that is left on a volume but so many bytes."""
    about = os.statvfs(path.parent)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, about.f_bavail * about.f_frsize - leave)


def is_head(pid: int, gym: LiveGym) -> bool:
    """The process that writes the output: forked by the nursery, and the parent of no server by name."""
    return str(gym.running.state_dir / "head.log") in {str(path) for path in open_files(pid)}


def open_files(pid: int) -> list[Path]:
    found = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.append(link.readlink())
        except OSError:
            continue
    return found
