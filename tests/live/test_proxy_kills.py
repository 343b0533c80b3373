"""The policy proxy, killed at random moments: what a client was told is on disk, and every file can be read."""

import asyncio
import base64
import contextlib
import json
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from gym_core.capture.images import AssetStore
from gym_core.capture.recorder import CallRecorder, capture_path
from gym_core.types.model_call import CallOutcome, ModelCall
from gym_core.types.wire import JsonObject
from tests.bench.bench_proxy import run_proxy
from tests.fakes.captured import read_calls
from tests.fakes.model import Calls, Says, ScriptedEndpoint
from tests.fakes.proxy import PIXEL, RUN_TOKEN, chat, eventually

pytestmark = [pytest.mark.live, pytest.mark.slow]

KILLS = 25
SESSIONS, THREADS = 3, 2
"""Conversations at once: a session's threads are like a harness and its sub-agent."""
MOST_CALLS, LONGEST_S = 16, 0.05
"""Before the kill: so many answers at most, and then a part of a call, so that a slow machine is killed as late."""
PROCESSES = multiprocessing.get_context("forkserver")
"""A fork of a process that has imported everything starts in no time, and is as much a process as any."""
IMPORTED = ["tests.bench.bench_proxy", "fastapi", "uvicorn.protocols.http.httptools_impl", "uvicorn.lifespan.on"]


@dataclass
class Told:
    """What one client received whole."""

    question: str
    content: str
    call_id: str


@dataclass
class Load:
    url: str
    session_id: str
    key: str
    told: list[Told] = field(default_factory=list)

    async def converse(self, http: aiohttp.ClientSession, thread: int) -> None:
        """Turn after turn, until the proxy is gone."""
        messages: list[JsonObject] = []
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            for turn in range(10_000):
                question = f"{self.session_id}.{thread}.{turn}"
                messages.append(_asked(question))
                said = await self._ask(http, messages)
                call = said["tool_calls"][0]
                self.told.append(Told(question, said["content"], call["id"]))
                messages += [said, {"role": "tool", "tool_call_id": call["id"], "content": "done"}]

    async def _ask(self, http: aiohttp.ClientSession, messages: list[JsonObject]) -> JsonObject:
        """The answer, once its last byte is there."""
        headers = {"Authorization": f"Bearer {self.key}"}
        body = chat(messages=messages, stream=False)
        async with http.post(f"{self.url}/chat/completions", json=body, headers=headers) as reply:
            content = await reply.read()
            assert reply.status == 200, content
        found: JsonObject = json.loads(content)["choices"][0]["message"]
        return found


def _asked(question: str) -> JsonObject:
    """Each with a picture of its own."""
    picture = base64.b64encode(base64.b64decode(PIXEL) + question.encode()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    return {"role": "user", "content": [{"type": "text", "text": question}, image]}


def _question(messages: list[JsonObject]) -> str:
    found: str = next(m for m in reversed(messages) if m["role"] == "user")["content"][0]["text"]
    return found


def _answers(messages: list[JsonObject]) -> Says:
    question = _question(messages)
    return Says(f"answer to {question}", calls=(Calls("bash", json.dumps({"q": question}), id="same"),))


@contextlib.asynccontextmanager
async def proxy_process(endpoint: ScriptedEndpoint, state_dir: Path) -> AsyncIterator[tuple[str, int]]:
    """(URL, pid) of a model server in a process of its own."""
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=run_proxy, args=(theirs, endpoint.url, str(state_dir)), daemon=True)
    process.start()
    try:
        url: str = await asyncio.to_thread(ours.recv)
        assert process.pid is not None
        yield url, process.pid
    finally:
        process.kill()
        await asyncio.to_thread(process.join)
        process.close()
        ours.close()
        theirs.close()


async def open_loads(http: aiohttp.ClientSession, url: str, name: str) -> list[Load]:
    loads = []
    for n in range(SESSIONS):
        headers, session_id = {"Authorization": f"Bearer {RUN_TOKEN}"}, f"{name}-{n}"
        async with http.post(f"{url}/capture_sessions", json={"session_id": session_id}, headers=headers) as reply:
            loads.append(Load(url, session_id, (await reply.json())["api_key"]))
    return loads


def check(load: Load, endpoint: ScriptedEndpoint, state_dir: Path) -> int:
    """How many calls are lost."""
    path = capture_path(state_dir / "captures", load.session_id)
    calls = list(read_calls(path))
    answered = {_question(call.messages): call for call in calls if call.outcome is CallOutcome.ANSWERED}
    for told in load.told:
        check_told(told, answered[told.question])
    sent = {question for seen in endpoint.requests if (question := _question(seen.body["messages"]))}
    sent = {question for question in sent if question.startswith(f"{load.session_id}.")}
    n_lost = sum(call.outcome is CallOutcome.LOST for call in calls)
    assert len(answered) + n_lost == len(calls)
    assert set(answered) <= sent
    assert len(sent - set(answered)) <= n_lost <= THREADS
    assets = AssetStore(state_dir / "assets")
    for image in {image for call in answered.values() for image in call.images}:
        assets.get(image)
    CallRecorder(path).close()
    assert list(read_calls(path)) == calls
    return n_lost


def check_told(told: Told, call: ModelCall) -> None:
    assert call.answer is not None
    assert call.answer.content == told.content == f"answer to {told.question}"
    assert [made.id for made in call.answer.tool_calls] == [told.call_id]
    assert (call.gaps, len(call.token_ids or [])) == ([], call.answer.output_tokens)


async def test_nothing_that_a_client_was_told_is_lost_when_the_proxy_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # the fork server looks nowhere else
    PROCESSES.set_forkserver_preload(IMPORTED)
    rng, n_told, n_lost = random.Random(0), 0, 0
    async with asyncio.timeout(300), ScriptedEndpoint(_answers) as endpoint, aiohttp.ClientSession() as http:
        for n in range(KILLS):
            endpoint.requests.clear()
            async with proxy_process(endpoint, tmp_path) as (url, pid):
                loads = await open_loads(http, url, f"s{n}")
                async with asyncio.TaskGroup() as clients:
                    for load in loads:
                        for thread in range(THREADS):
                            clients.create_task(load.converse(http, thread))
                    n_before = rng.randrange(MOST_CALLS)
                    await eventually(lambda: sum(len(load.told) for load in loads) >= n_before, timeout_s=60)  # noqa: B023 - awaited here
                    await asyncio.sleep(rng.uniform(0, LONGEST_S))
                    os.kill(pid, signal.SIGKILL)
            n_told += sum(len(load.told) for load in loads)
            n_lost += sum(check(load, endpoint, tmp_path) for load in loads)
    assert n_told > 5 * KILLS
    assert n_lost > 0
