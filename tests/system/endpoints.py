"""A policy endpoint and a judge endpoint in a process of their own, that act out the cases of a file.

`python -m tests.system.endpoints FOLDER` reads FOLDER/cases.json, writes FOLDER/urls.json once it listens, and appends
every request body to FOLDER/policy.jsonl or FOLDER/judge.jsonl, until SIGTERM.
"""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from aiohttp import web

from gym_core.config.roots import INSTALL_DIR
from gym_core.types.wire import JsonObject
from tests.fakes.model import Calls, Rule, Says, ScriptedEndpoint, Seen
from tests.system.house import House

POLICY_KEY = "policy-key-5f2a9c"
JUDGE_KEY = "judge-key-77d1e0"
JUDGE_MODEL = "gpt-4o-mini"
POLICY_MODEL = "tiny"


@dataclass(frozen=True)
class Case:
    """What policy and judge do about a question."""

    phrase: str
    """Stands in the question, and in no other."""
    says: str
    """The policy's last words."""
    commands: tuple[str, ...] = ()
    """Shell commands before them, one tool call each."""
    finish_reason: str | None = None
    judge: str = "compares"
    """"compares" the two answers as text, replies "nonsense", or "fails" with status 500."""


@dataclass(frozen=True)
class Endpoints:
    folder: Path
    policy_url: str
    judge_url: str

    def policy_bodies(self) -> list[bytes]:
        return _lines(self.folder / "policy.jsonl")

    def judge_bodies(self) -> list[bytes]:
        return _lines(self.folder / "judge.jsonl")


@contextlib.asynccontextmanager
async def open_endpoints(
    house: House, folder: Path, cases: Sequence[Case], *, pause_s: float = 0.0
) -> AsyncIterator[Endpoints]:
    """`pause_s`: before each answer of the policy."""
    process = _start(house, folder, {"pause_s": pause_s, "cases": [asdict(case) for case in cases]})
    house.neighbours.add(process.pid)
    try:
        async with asyncio.timeout(30):
            while not (folder / "urls.json").exists():
                assert process.poll() is None, (folder / "log").read_text()
                await asyncio.sleep(0.02)
        yield Endpoints(folder, **json.loads((folder / "urls.json").read_text()))
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _start(house: House, folder: Path, script: JsonObject) -> "subprocess.Popen[bytes]":
    folder.mkdir(parents=True)
    (folder / "cases.json").write_text(json.dumps(script))
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.system.endpoints", str(folder)], cwd=INSTALL_DIR, stdout=log, stderr=log,
            env=house.variables(),
        )  # fmt: skip


class _Log(list[Seen]):
    """Keeps what arrives on disk too."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def append(self, seen: Seen) -> None:
        with self._path.open("ab") as file:
            file.write(seen.raw.replace(b"\n", b" ") + b"\n")
        super().append(seen)


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def policy_rule(cases: Sequence[Case], pause_s: float) -> Rule:
    def rule(messages: list[dict[str, object]]) -> Says:
        time.sleep(pause_s)  # holds the other requests too: a slow endpoint
        case = _case_of(cases, json.dumps([m for m in messages if m["role"] == "user"]))
        if case is None:
            return Says("nothing to do")
        done = sum(message["role"] == "assistant" for message in messages)
        if done < len(case.commands):
            arguments = json.dumps({"command": case.commands[done], "description": "look closer"})
            return Says(calls=(Calls("bash", arguments),))
        return Says(case.says, finish_reason=case.finish_reason)

    return rule


def judge_rule(cases: Sequence[Case]) -> Rule:
    def rule(messages: list[dict[str, object]]) -> str:
        text = str(messages[1]["content"])
        case = _case_of(cases, json.dumps(text))
        if case is not None and case.judge == "fails":
            raise web.HTTPInternalServerError(text="judge died")
        if case is not None and case.judge == "nonsense":
            return "I like turtles"
        gold, answer = (_block(text, name) for name in ("REFERENCE ANSWER", "FINAL ANSWER"))
        verdict = "equivalent" if gold == answer else "different"
        return json.dumps({"verdict": verdict, "confidence": 1, "reason": "compared as text"})

    return rule


def _case_of(cases: Sequence[Case], text: str) -> Case | None:
    return next((case for case in cases if case.phrase in text), None)


def _block(text: str, name: str) -> str:
    found = re.search(rf"<<<{name} \w+>>>\n(.*?)\n<<<END {name}", text, re.DOTALL)
    assert found, f"no block {name} in the judge's prompt"
    return found.group(1)


async def _serve(folder: Path) -> None:
    script = json.loads((folder / "cases.json").read_text())
    cases = [Case(**{**case, "commands": tuple(case["commands"])}) for case in script["cases"]]
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    policy = ScriptedEndpoint(
        policy_rule(cases, script["pause_s"]), model=POLICY_MODEL, needs_key=POLICY_KEY,
        requests=_Log(folder / "policy.jsonl"),
    )  # fmt: skip
    judge = ScriptedEndpoint(
        judge_rule(cases), model=JUDGE_MODEL, needs_key=JUDGE_KEY, requests=_Log(folder / "judge.jsonl")
    )
    async with policy, judge:
        partial = folder / "urls.part"
        partial.write_text(json.dumps({"policy_url": policy.url, "judge_url": judge.url}))
        partial.replace(folder / "urls.json")
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
