"""The servers of a gym as processes: started, ended, restarted, given up, and none of them knowing too much."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gym_core.sandbox import toolkit
from gym_core.types.wire import JsonObject
from tests.system import sums
from tests.system.endpoints import JUDGE_KEY, POLICY_KEY, open_endpoints
from tests.system.house import Command, House
from tests.system.processes import environment_and_argv, holds

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not toolkit.is_built(), reason="no toolkit: run `gym sandbox build`"),
]

ECHO = Path(__file__).parents[2] / "resources_servers" / "echo"
SERVERS = {"sums_server", "sums_agent", "policy_model"}
USER_KEY = "user-key-90b3aa"
HIDDEN_BODY = b'{"model": "tiny", "messages": []}'

JUDGE = {
    "judge_model": {
        "model_servers": {
            "openai_model": {
                "openai_base_url": "http://127.0.0.1:9/v1",
                "openai_api_key": "${oc.env:OPENAI_API_KEY}",
                "openai_model": "gpt-4o-mini",
            }
        }
    }
}
"""Over the benchmark: a judge that nobody reaches, with a key."""


@dataclass
class Standing:
    """A gym that stays up, and the client of its head server."""

    command: Command
    client: httpx.AsyncClient

    async def instances(self) -> dict[str, JsonObject]:
        reply = await self.client.get("/server_instances")
        reply.raise_for_status()
        return {entry["name"]: entry for entry in reply.json()}


@contextlib.asynccontextmanager
async def standing(house: House, *words: str) -> AsyncIterator[Standing]:
    """`gym env start WORDS`."""
    command = house.start("env", "start", *words)
    out = house.said("out", command.number)
    await command.until(lambda: "stop " in out.read_text())
    url, token = announced(out.read_text())
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        yield Standing(command, client)
    if command.process.poll() is None:
        command.signal(signal.SIGTERM)
        assert (await command.ended(30)).code == 0
    await house.all_gone()


def announced(text: str) -> tuple[str, str]:
    """URL and token of the head server, from what `gym env start` says."""
    found = re.search(r"head server +(\S+)\ntoken +in (\S+)", text)
    assert found, text
    return found.group(1), Path(found.group(2)).read_text().strip()


@contextlib.asynccontextmanager
async def benchmark(
    house: House, *, tasks: int = 4, pause_s: float = 0.0, **more: JsonObject
) -> AsyncIterator[list[str]]:
    config = sums.write_config(house.folder, tasks, **more)
    async with open_endpoints(house, house.folder / "endpoints", sums.cases(tasks), pause_s=pause_s) as endpoints:
        yield sums.words(config, endpoints)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


# -- start and stop ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_a_stopped_gym_leaves_nothing(house: House, number: signal.Signals) -> None:
    async with asyncio.timeout(90), benchmark(house) as words, standing(house, *words) as gym:
        instances = await gym.instances()
        assert instances.keys() == SERVERS
        assert {entry["status"] for entry in instances.values()} == {"ready"}
        assert {entry["pid"] for entry in instances.values()} == {
            pid for name, pid in gym.command.servers().items() if name in SERVERS
        }
        status = await house.run("env", "status")
        assert status.code == 0, status.err
        assert all(name in status.out for name in SERVERS)
        gym.command.signal(number)
        ended = await gym.command.ended(30)
        assert ended.code == (-number if number == signal.SIGKILL else 0), ended.err
        await house.all_gone()
        if number != signal.SIGKILL:
            assert list(house.state.rglob("token")) + list(house.state.rglob("head.json")) == []


async def test_a_gym_whose_head_dies_says_so_and_ends(house: House) -> None:
    async with asyncio.timeout(60), benchmark(house) as words:
        command = house.start("env", "start", *words)
        await command.until(lambda: "stop " in house.said("out", command.number).read_text())
        os.kill(command.servers()["head"], signal.SIGKILL)
        ended = await command.ended(10)
        assert (ended.code, "the head server ended (code -9)" in ended.err) == (1, True), ended.err
        await house.all_gone(20)


async def test_a_server_that_cannot_start_is_reported_with_its_log_at_once(house: House) -> None:
    write_broken_server(house.cwd / "resources_servers" / "broken")
    broken = {"resources_servers": {"broken": {}}}
    async with asyncio.timeout(60), benchmark(house, sums_server=broken) as words:
        ended = await house.run("eval", "run", *words, "--output", str(house.output), timeout_s=30)
        assert ended.code == 1
        assert "RuntimeError: no disk for this server" in ended.err
        assert "sums_server" in ended.err
        assert JUDGE_KEY not in ended.err + ended.out
        await house.all_gone()


def write_broken_server(folder: Path) -> None:
    """An environment that fails when it opens."""
    (folder / "configs").mkdir(parents=True)
    (folder / "app.py").write_text(
        "from gym_core.servers.resources import ResourcesServer\n\n\n"
        "class Broken(ResourcesServer):\n"
        "    async def open(self):\n"
        "        raise RuntimeError('no disk for this server')\n"
    )


async def test_a_port_in_use_is_a_mistake_of_the_configuration(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with asyncio.timeout(60), benchmark(house) as words:
            ended = await house.run("env", "start", *words, f"++head_server.port={port}", timeout_s=30)
            assert (ended.code, f"127.0.0.1:{port}" in ended.err) == (2, True), ended.err
            await house.all_gone()


async def test_modules_of_the_working_folder_do_not_take_the_place_of_ours(house: House) -> None:
    for name in ("json", "yaml", "secrets"):
        (house.cwd / f"{name}.py").write_text("raise RuntimeError('not this one')\n")
    async with asyncio.timeout(60), benchmark(house) as words:
        ended = await house.run("eval", "run", *words, "--output", str(house.output), "--limit", "1")
        assert ended.code == 0, ended.err


async def test_a_plugin_of_a_search_dir_is_found_by_the_process_that_serves_it(house: House) -> None:
    """The process that servers are forked from is older than what the command line says."""
    folder = house.folder / "own" / "resources_servers" / "own_echo"
    shutil.copytree(ECHO, folder, ignore=shutil.ignore_patterns("__pycache__"))
    config = (folder / "configs" / "echo.yaml").read_text().replace("\n    echo: {}", "\n    own_echo: {}")
    (folder / "configs" / "own_echo.yaml").write_text(config)
    words = ("--search-dir", str(folder.parents[1]), "--environment", "own_echo", "--model-type", "scripted_model")
    async with standing(house, *words) as gym:
        assert (await gym.instances())["echo"]["status"] == "ready"


async def test_a_server_that_keeps_crashing_is_given_up(house: House) -> None:
    async with asyncio.timeout(120), benchmark(house) as words, standing(house, *words) as gym:
        seen = set()
        while (agent := (await gym.instances())["sums_agent"])["status"] != "failed":
            if agent["status"] == "ready" and agent["pid"] not in seen:
                seen.add(agent["pid"])
                os.kill(agent["pid"], signal.SIGKILL)
            await asyncio.sleep(0.05)
        assert (len(seen), agent["restarts"]) == (6, 5)
        with pytest.raises(httpx.ConnectError):
            await gym.client.get(f"{agent['url']}/livez")
        others = [entry["status"] for name, entry in (await gym.instances()).items() if name != "sums_agent"]
        assert others == ["ready", "ready"]
        options = {"output_jsonl_fpath": str(house.output), "max_rollout_attempts": 1}
        result = await end_of(gym, (await gym.client.post("/v1/runs", json=options)).json()["run_id"])
        assert result["metrics"]["masked_failures"] == {"transport_unreachable": 4}
        assert [row["reward"] for row in house.rows()] == [None] * 4


async def test_nothing_outlives_the_process_that_servers_are_forked_from(house: House) -> None:
    async with asyncio.timeout(60), benchmark(house, pause_s=0.5) as words:
        command = house.start("eval", "run", *words, "--output", str(house.output))
        await command.until(lambda: house.output.exists() and len(house.rows()) >= 1)
        os.kill(command.servers()["nursery"], signal.SIGKILL)
        ended = await command.ended(10)
        assert (ended.code, "the same command goes on from here" in ended.err) == (1, True), ended.err
        await house.all_gone(10)


# -- secrets ----------------------------------------------------------------------------------------------------------


async def test_no_process_knows_anothers_secrets(house: House) -> None:
    house.environment |= {"OPENAI_API_KEY": JUDGE_KEY}
    async with asyncio.timeout(120), with_judge(house) as words, standing(house, *words) as gym:
        run = await gym.client.post(
            "/v1/runs", json={"output_jsonl_fpath": str(house.output), "num_samples_in_parallel": 2}
        )
        await end_of(gym, run.json()["run_id"])
        servers = gym.command.servers()
        assert servers.keys() == {"cli", "nursery", "head", "judge_model", *SERVERS}
        for name, pid in servers.items():
            if name == "cli":  # the user's own command line and environment
                continue
            shown = environment_and_argv(pid)
            assert POLICY_KEY.encode() not in shown, name
            assert JUDGE_KEY.encode() not in shown, name
            assert holds(pid, POLICY_KEY) == (name == "policy_model"), name
            assert holds(pid, JUDGE_KEY) == (name == "judge_model"), name
        view = await gym.client.get("/global_config_dict_yaml")
        assert view.status_code == 200
        assert "judge_model" in view.text
        assert POLICY_KEY not in view.text
        assert JUDGE_KEY not in view.text
    written = [f for f in (*house.state.rglob("*"), *house.output.parent.rglob("*")) if f.is_file()]
    assert len(written) > 8
    assert [
        f for f in written if {POLICY_KEY, JUDGE_KEY} & set(re.findall(r"[\w-]+-key-\w+", f.read_text("latin-1")))
    ] == []


@contextlib.asynccontextmanager
async def with_judge(house: House) -> AsyncIterator[list[str]]:
    reference = {"type": "model_servers", "name": "judge_model"}
    async with benchmark(house, **JUDGE) as words:
        asked = house.folder / "judged.yaml"
        asked.write_text(
            f"sums_server: {{resources_servers: {{visual_coding_opencode: {{judge_model_server: {reference}}}}}}}\n"
        )
        yield [*words, "--config", str(asked)]


async def end_of(gym: Standing, run_id: str) -> JsonObject:
    """The result of a run, from the last event of its stream."""
    name, data = "", ""
    async with gym.client.stream("GET", f"/v1/runs/{run_id}/events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        async for line in events.aiter_lines():
            if line.startswith("event:"):
                name = line.partition(":")[2].strip()
            if line.startswith("data:"):
                data = line.partition(":")[2].strip()
    assert name == "end"
    result: JsonObject = httpx.Response(200, content=data).json()
    return result


# -- tokens -----------------------------------------------------------------------------------------------------------

SERVED = ("head", "sums_server", "sums_agent", "policy_model")
SESSION_ROUTES = {"/v1/chat/completions", "/v1/responses", "/v1/models"}
"""Of the policy server: all that a session's key is good for."""


@pytest.fixture
async def served(house: House) -> AsyncIterator["Served"]:
    async with Served.start(house) as found:
        yield found


@dataclass(frozen=True)
class Served:
    """`gym serve NAME` for head and servers, a process each, as containers run them."""

    urls: dict[str, str]
    token: str

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, house: House) -> AsyncIterator["Served"]:
        ports = dict(zip(SERVED, free_ports(len(SERVED)), strict=True))
        token = "run-token-6d21f0"
        house.environment |= {"GYM_RUN_TOKEN": token, "GYM_API_KEY": USER_KEY}
        async with benchmark(house) as words:
            where = [f"++head_server.port={ports['head']}"]
            for name, path in (
                ("sums_server", "resources_servers.visual_coding_opencode"),
                ("sums_agent", "agent_servers.single_call"),
                ("policy_model", "model_servers.vllm_model"),
            ):
                where += [f"++{name}.{path}.host=127.0.0.1", f"++{name}.{path}.port={ports[name]}"]
            commands = [house.start("serve", name, *words, *where) for name in SERVED]
            found = cls({name: f"http://127.0.0.1:{port}" for name, port in ports.items()}, token)
            async with httpx.AsyncClient() as client:
                for name, command in zip(SERVED, commands, strict=True):
                    await _until_ready(client, f"{found.urls[name]}/readyz", command)
            yield found
            for command in commands:
                command.signal(signal.SIGTERM)
            for command in commands:
                assert (await command.ended(30)).code == 0
        await house.all_gone()

    def client(self, name: str, token: str | None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(base_url=self.urls[name], headers=headers, timeout=60)

    async def routes(self, name: str) -> list[tuple[str, str]]:
        """Method and path of every route but the three of health; path parameters are x."""
        async with self.client(name, self.token) as client:
            paths = (await client.get("/openapi.json")).json()["paths"]
        found = [
            (method.upper(), re.sub(r"\{.*?\}", "x", path)) for path, methods in paths.items() for method in methods
        ]
        hidden = [("POST", "/v1/chat/completions")] if name == "policy_model" else []
        return [*found, *hidden, ("GET", "/openapi.json")]

    async def status(self, name: str, method: str, path: str, token: str | None) -> int:
        async with self.client(name, token) as client:
            return (await client.request(method, path, content=HIDDEN_BODY)).status_code


async def _until_ready(client: httpx.AsyncClient, url: str, command: Command) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(httpx.TransportError):
                if (await client.get(url)).status_code == 200:
                    return
            assert command.process.poll() is None, command.house.said("err", command.number).read_text()
            await asyncio.sleep(0.05)


async def test_every_route_of_every_server_wants_its_token(served: Served) -> None:
    async with asyncio.timeout(120):
        for name in SERVED:
            routes = await served.routes(name)
            assert len(routes) >= 7
            for method, path in routes:
                # A lease has a token of its own; without it nobody learns whether it is there.
                is_lease = path.startswith("/v1/sandboxes/")
                for token in (None, "wrong", POLICY_KEY):
                    status = await served.status(name, method, path, token)
                    assert status in ({401, 404} if is_lease else {401}), (name, method, path, token, status)
                if not is_lease:
                    assert await served.status(name, method, path, served.token) != 401, (name, method, path)
            for path in ("/health", "/livez", "/readyz"):
                assert await served.status(name, "GET", path, None) == 200


async def test_a_sessions_key_is_good_for_model_calls_alone(served: Served, tmp_path: Path) -> None:
    async with served.client("policy_model", served.token) as client:
        request = {"session_id": "s1", "captures_dir": str(tmp_path / "c"), "assets_dir": str(tmp_path / "a")}
        opened = await client.post("/v1/capture_sessions", json=request)
        key = opened.json()["api_key"]
    async with asyncio.timeout(60):
        for name in SERVED:
            for method, path in await served.routes(name):
                status = await served.status(name, method, path, key)
                if name == "policy_model" and path in SESSION_ROUTES:
                    assert status not in (401, 403), (name, path)
                else:
                    assert status in ({401, 404} if path.startswith("/v1/sandboxes/") else {401}), (name, method, path)


async def test_a_run_through_servers_that_were_started_alone(served: Served, house: House) -> None:
    async with asyncio.timeout(120), served.client("head", USER_KEY) as client:
        instances = (await client.get("/server_instances")).json()
        assert {entry["name"]: entry["url"] for entry in instances} == {
            name: url for name, url in served.urls.items() if name != "head"
        }
        run = await client.post("/v1/runs", json={"output_jsonl_fpath": str(house.output)})
        run_id = run.json()["run_id"]
        while (result := (await client.get(f"/v1/runs/{run_id}")).json())["progress"]["state"] != "done":
            assert result["progress"]["state"] in ("starting", "running"), result
            await asyncio.sleep(0.1)
        assert {int(row["source_id"]): row["reward"] for row in house.rows()} == {
            n: sums.expected_reward(n) for n in range(4)
        }


# -- REST -------------------------------------------------------------------------------------------------------------


async def test_a_run_is_started_watched_and_cancelled_over_rest(house: House) -> None:
    async with (
        asyncio.timeout(120),
        benchmark(house, tasks=8, pause_s=0.3) as words,
        standing(house, *words) as gym,
    ):
        options = {"output_jsonl_fpath": str(house.output), "num_samples_in_parallel": 2}
        run_id = (await gym.client.post("/v1/runs", json=options)).json()["run_id"]
        await gym.command.until(lambda: house.output.exists() and len(house.rows()) >= 2)
        cancelled = await gym.client.delete(f"/v1/runs/{run_id}")
        assert cancelled.status_code == 200
        assert (await end_of(gym, run_id))["progress"]["state"] == "cancelled"
        assert 2 <= len(house.rows()) < 8
        again = (await gym.client.post("/v1/runs", json=options)).json()["run_id"]
        result = await end_of(gym, again)
        assert result["progress"]["state"] == "done"
        assert result["metrics"]["coverage"]["missing"] == 0
        assert {int(row["source_id"]): row["reward"] for row in house.rows()} == {
            n: sums.expected_reward(n) for n in range(8)
        }
        refused = await gym.client.post("/v1/runs", json=options | {"limits": 3})
        assert (refused.status_code, "limits" in refused.text) == (422, True)
        assert (await gym.client.get("/v1/runs/run-none")).status_code == 404


async def test_two_runs_into_one_file_do_the_work_once(house: House) -> None:
    async with asyncio.timeout(60), benchmark(house, pause_s=0.2) as words, standing(house, *words) as gym:
        options = {"output_jsonl_fpath": str(house.output)}
        runs = [(await gym.client.post("/v1/runs", json=options)).json()["run_id"] for _ in range(2)]
        results = [await end_of(gym, run_id) for run_id in runs]
        assert [result["progress"]["state"] for result in results] == ["done", "done"]
        assert sorted(result["progress"]["resumed"] for result in results) == [0, 4]
        assert sorted(int(row["source_id"]) for row in house.rows()) == [0, 1, 2, 3]


async def test_one_flat_row_goes_in_and_one_comes_out(house: House) -> None:
    async with asyncio.timeout(60), benchmark(house) as words, standing(house, *words) as gym:
        content = [{"type": "input_text", "text": sums.question(1).question}]
        row = {
            "responses_create_params": {"input": [{"role": "user", "type": "message", "content": content}]},
            "question": sums.question(1).question,
            "expected_answer": "2",
        }
        reply = await gym.client.post("/environments/sums/run", json=row)
        assert reply.status_code == 200, reply.text
        found = reply.json()
        assert (found["reward"], found["expected_answer"], found["extracted_answer"]) == (1.0, "2", "2")
        assert found["response"]["output"][-1]["content"][0]["text"] == "\\boxed{2}"
        unknown = await gym.client.post("/environments/none/run", json=row)
        assert (unknown.status_code, "sums" in unknown.text) == (404, True)
        for nonsense in (b"", b"[]", b'{"responses_create_params": 7}', b"\xff"):
            refused = await gym.client.post("/environments/sums/run", content=nonsense)
            assert refused.status_code == 422, (nonsense, refused.text)
