"""What a row says of a task that means harm, act by act, in a whole gym on each provider: the model's own commands do
it, as OpenCode runs them, and then the model answers, if it still can.

`test_hostile_task.py` does the same to sandboxes alone, and looks at what was contained.
"""

import asyncio
import base64
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym_core.types.wire import JsonObject
from tests.fakes.model import Says
from tests.live.gyms import ANSWER, ONE_CALL, OPENCODE, RESOURCES, bash, live_gym, needs_toolkit, script
from tests.live.houses import OpenHouse, every_house
from tests.live.test_hostile_task import INSIDE, PERMIT, TASK
from tests.sandboxes.words import serve_words

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOOL_TIMEOUT_MS = 8000
LIMITS: JsonObject = {"cpu": 2, "memory_mib": 2048, "workspace_mib": 64, "pids": 256}
EMPTY = "rm -f /workspace/full /tmp/full /home/agent/full /dev/shm/full /run/full /var/tmp/full"

ENDED_BADLY = ("agent_run_error", "agent_timeout")
"""What becomes of a run whose harness was hit too: the model's own doing, which scores 0 and says so."""


@dataclass(frozen=True)
class Act:
    words: str
    told: str
    """A pattern of what the command's output, as the row has it, says."""
    then: str = "true"
    or_ends: str | None = None
    """Where the harness, which shares the sandbox's processes and memory, may fall with it: a pattern of the reason."""


ACTS = [
    Act("look", r'\{"reached": \[\]\}'),
    Act("links", r'\{"planted": \d+\}'),
    Act(
        "forks",
        r"timeout|Resource temporarily|fork",
        or_ends=r"OpenCode (ended|failed)|time limit|limit is used up|Server disconnected|did not start",
    ),
    Act("memory", r"Killed|MemoryError|refused_after_mib|137", or_ends=r"OpenCode (ended|failed)|time limit"),
    Act("disk", r'"written_mib": \{.*"/workspace": \d', then=EMPTY),
    # OpenCode keeps it all in memory, or cuts it.
    Act("flood", r"y{1000}|output truncated", or_ends=r"OpenCode (ended|failed)|time limit"),
    Act("daemons hostile-row", r'\{"left": 3\}', or_ends="time limit"),  # it waits for whoever holds the pipe
]


def command_of(act: Act, doors: list[tuple[str, int]]) -> str:
    words = f"look '{json.dumps(doors)}'" if act.words == "look" else act.words
    return f"python3 -I {INSIDE} {words} 2>&1; echo ended with $?; {act.then}"


def unpacked() -> str:
    packed = base64.b64encode(zlib.compress(TASK.read_bytes(), 9)).decode()
    program = f"import base64,zlib;print(zlib.decompress(base64.b64decode('{packed}')).decode())"
    return f'python3 -c "{program}" > {INSIDE}; touch {PERMIT}'


@every_house
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.words.split()[0])
@needs_toolkit
async def test_the_row_says_what_happened_and_the_gym_goes_on(open_house: OpenHouse, act: Act, tmp_path: Path) -> None:
    async with open_house(tmp_path) as house, serve_words(b"decoy") as decoy:
        doors = [("127.0.0.1", decoy), ("127.0.0.1", 22), ("169.254.169.254", 80)]
        turns = [
            Says("Harm.", (bash(command, timeout=TOOL_TIMEOUT_MS),)) for command in (unpacked(), command_of(act, doors))
        ]
        changes = {
            **house.changes,
            f"{RESOURCES}.resources_servers.visual_coding_opencode.sandbox_config.resources": LIMITS,
        }
        async with live_gym(tmp_path, script(*turns, ANSWER), changes=changes) as gym:
            row = await gym.play(OPENCODE)
            next_row = await gym.play(ONE_CALL, index=1)
        (await asyncio.open_connection("127.0.0.1", decoy))[1].close()  # the control: from outside it is open
    said = json.dumps([row["reward"], row["failure_kind"], row["failure_reason"]])
    assert row["response"], said
    outputs = [str(item["output"]) for item in row["response"]["output"] if item["type"] == "function_call_output"]
    said = f"{said}\n{[output[:500] for output in outputs]}"

    assert row["mask_sample"] is False, said
    assert (row["_gym_sandbox"]["provider"], row["_gym_sandbox"]["network"]) == (house.provider, house.network)
    if row["failure_kind"] is None:
        assert row["reward"] == 1.0, said
        assert re.search(act.told, outputs[-1], re.DOTALL), said
        assert len(outputs) == len(turns), said
    else:
        assert act.or_ends, said
        assert re.search(act.or_ends, row["failure_reason"]), said
        assert (row["reward"], row["failure_kind"] in ENDED_BADLY, bool(row["failure_reason"])) == (0.0, True, True), (
            said
        )
    assert next_row["mask_sample"] is False  # played and graded, whatever it was worth
