"""Each failure kind of the table, through a real gym: real servers, real sandboxes, real OpenCode, scripted endpoints.

What is asserted is what a user sees: the row, or the run's files. `live_gym` checks that nothing is left over.
"""

import asyncio
import json
import os
import resource
import signal
from pathlib import Path

import pytest

from gym_core.errors import FailureKind
from gym_core.types.run import RunState
from gym_core.types.wire import JsonObject
from tests.fakes.model import Calls, Fault, Rule, Says
from tests.live.gyms import (
    ANSWER,
    EQUIVALENT,
    ONE_CALL,
    OPENCODE,
    OPENCODE_AGENT,
    POLICY,
    RESOURCES,
    LiveGym,
    bash,
    descendants,
    kill,
    live_gym,
    make_row,
    needs_toolkit,
    script,
)

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_toolkit]

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


def opencode_processes() -> list[int]:
    """Of sandboxes of this test process, as the host numbers them."""
    return [pid for pid in descendants(os.getpid()) if _is_opencode(pid)]


def _is_opencode(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("opencode")
    except OSError:
        return False


# -- the policy's endpoint ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault.RATE_LIMITED, "429"),
        (Fault.SERVER_ERROR, "500"),
        (Fault.HANG, "no byte"),
        (Fault.RESET, ""),
        (Fault.HALF_STREAM, ""),
        (Fault.STALL, "no byte"),
        (Fault.HTML, ""),
        (Fault.UNAUTHORIZED, "401"),
        (Fault.BAD_REQUEST, "cannot identify image file"),
    ],
)
async def test_an_endpoint_that_keeps_failing_masks_the_rollout(fault: Fault, says: str, tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER)) as gym:
        gym.policy.fail_always(fault)
        row = await gym.play()
    assert ending(row) == MASKED_MODEL
    assert says in row["_gym_capture"]["last_failure_message"]
    assert row["_gym_capture"]["failed_calls"] == 1
    assert row["_gym_capture"]["last_failure"] == FailureKind.MODEL_UNAVAILABLE
    assert row["response"]["status"] == "failed"
    assert gym.judge.requests == []
    assert len(gym.policy.requests) == (1 if fault in (Fault.UNAUTHORIZED, Fault.BAD_REQUEST) else 3) + asked_plainly(
        fault
    )


def asked_plainly(fault: Fault) -> int:
    """A 400 that names no field is asked once more without the fields that only we want."""
    return 1 if fault is Fault.BAD_REQUEST else 0


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


async def test_an_endpoint_that_is_down_from_the_start_is_tried_in_new_episodes_and_masked(tmp_path: Path) -> None:
    async with live_gym(tmp_path, script(ANSWER), changes={"policy_base_url": "http://127.0.0.1:9/v1"}) as gym:
        result = await gym.evaluate(max_rollout_attempts=2)
    print(result.progress)
    (row,) = gym.rows()
    assert ending(row) == MASKED_MODEL
    assert row["_gym_attempts"] == 2
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
    "takes all memory": "cat /dev/zero | head -c 6G | tail >/dev/null & dd if=/dev/zero of=/dev/shm/x bs=1M; wait",
}


@pytest.mark.parametrize("deed", SABOTAGE)
async def test_a_model_that_breaks_its_own_run_is_scored(deed: str, tmp_path: Path) -> None:
    slow = Says("Done.", (bash("sleep 3"),))
    turns = (Says("Sabotage.", (bash(SABOTAGE[deed], timeout=900_000),)), slow, WRONG)
    different = json.dumps({"verdict": "different", "reason": "41 is not 42"})
    changes: dict[str, object] = {f"{AGENT_BLOCK}.timeout_s": 25}
    async with live_gym(tmp_path, script(*turns), judge=lambda _: different, changes=changes) as gym:
        row = await gym.play(OPENCODE)
        print(deed, ending(row), row["failure_reason"], row["_gym_agent"], items(row))
    assert (row["reward"], row["mask_sample"]) == (0.0, False)
    assert row["failure_kind"] in (None, FailureKind.AGENT_RUN_ERROR, FailureKind.AGENT_TIMEOUT)
