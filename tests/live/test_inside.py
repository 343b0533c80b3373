"""What a model's command finds when it looks around: a real gym, OpenCode's bash tool, every door tried from inside.

The walls themselves are probed with decoys in `test_isolation.py`; here the servers, keys and sandboxes are real ones.
"""

import asyncio
import base64
import hashlib
import json
import shlex
import socket
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from gym_core.http.auth import new_token
from gym_core.types.wire import JsonObject
from tests.fakes.model import Says
from tests.live.gyms import (
    ANSWER,
    JUDGE_KEY,
    OPENCODE,
    POLICY,
    PROVIDER_KEY,
    SCRIPTED,
    LiveGym,
    bash,
    live_gym,
    needs_toolkit,
    opencode_processes,
)
from tests.live.isolation_lab import PROBE

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_toolkit]

LOOK_AROUND = r'''
import hashlib, re, urllib.error, urllib.request

KEY = json.load(open("/home/agent/.gym-run/opencode.json"))["provider"]["policy"]["options"]["apiKey"]
TOKEN = re.compile(rb"(?<![\w+/=-])[A-Za-z0-9_-]{43}(?![\w+/=-])")
TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}


def http(method, path, key, body=None):
    """The status; the port is the only thing of the URL that gets out."""
    headers = {"Authorization": "Bearer " + key} if key else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(config["base"] + path, data, headers, method=method)
    try:
        return urllib.request.urlopen(request, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


def readable_bytes():
    for pid in [*processes(), "self"]:
        for name in ("environ", "cmdline"):
            try:
                yield open(f"/proc/{pid}/{name}", "rb").read()
            except OSError:
                pass
    for root in ("/home", "/workspace", "/tmp", "/run", "/dev/shm", "/etc"):
        for folder, _, files in os.walk(root):
            for name in files:
                path = os.path.join(folder, name)
                try:
                    if os.path.isfile(path) and os.path.getsize(path) < 32 << 20:
                        yield open(path, "rb").read()
                except OSError:
                    pass


def is_random(word):
    """Not a name of 43 characters, such as a migration of a database has."""
    return len(set(word)) > 18 and word.lower() != word and word.upper() != word


def credentials():
    tokens, words = set(), set()
    wanted = set(config["secrets"])
    for content in readable_bytes():
        if content.startswith(b"\x7fELF"):  # a library that OpenCode unpacked
            continue
        tokens.update(match.decode() for match in TOKEN.findall(content) if is_random(match))
        words |= {w for w in re.findall(rb"[A-Za-z0-9_-]{12,80}", content) if hashlib.sha256(w).hexdigest() in wanted}
    return sorted(tokens), len(words)


config = json.loads(sys.argv[1])
probe = Probe(config)
for ip, port, label in config["tcp"]:
    probe.must_fail("tcp " + label, lambda ip=ip, port=port: ask(socket.SOCK_STREAM, ip, port))
probe.attack()
chat = {"model": "policy", "messages": [{"role": "user", "content": "hello"}], "tools": [TOOL]}
capture = {"session_id": "mine", "captures_dir": "/tmp", "assets_dir": "/tmp"}
found = {
    "own key": {
        "GET /v1/models": http("GET", "/v1/models", KEY),
        "POST /v1/chat/completions": http("POST", "/v1/chat/completions", KEY, chat),
    },
    "own key, other doors": {
        f"{method} {path}": http(method, path, KEY, body)
        for method, path, body in (
            ("POST", "/v1/capture_sessions", capture),
            ("GET", "/v1/capture_sessions/" + config["session_like"], None),
            ("DELETE", "/v1/capture_sessions/" + config["session_like"], None),
            ("GET", "/v1/models/../capture_sessions/x", None),
            ("GET", "//v1/capture_sessions/x", None),
            ("POST", "/v1/check", None),
            ("GET", "/scripted_endpoint/v1/models", None),
            ("POST", "/scripted_endpoint/v1/chat/completions", chat),
            ("GET", "/openapi.json", None),
        )
    },
    "other keys": {
        label: http("GET", "/v1/models", key)
        for label, key in (("none", ""), ("made up", "x" * 43), ("ended session's", config["old_key"]))
    },
}
tokens, secrets_found = credentials()
print(json.dumps({"key": KEY, "http": found, "tokens": tokens, "secrets": secrets_found, "walls": probe.results}))
'''


@dataclass
class Spy:
    """A model whose first command looks around, and which then answers."""

    before: str = ""
    command: str = "true"
    report: JsonObject = field(default_factory=dict)

    def __call__(self, messages: list[JsonObject]) -> Says | str:
        if messages[-1]["role"] != "tool":
            return Says("Look around.", (bash(self.before + self.command, timeout=100_000),))
        text = str(messages[-1]["content"])
        found = [line for line in text.splitlines() if line.startswith('{"key"')]
        self.report = json.loads(found[0]) if found else {"failed": text}
        return ANSWER


async def look_around(gym: LiveGym, spy: Spy, *, old_key: str = "y" * 43) -> JsonObject:
    servers = {found["name"]: found["url"] for found in await gym.head.servers()}
    policy = urlsplit(servers.pop(POLICY))
    others = {**servers, "head": gym.running.head_url, "policy's endpoint": gym.policy.url}
    config = {
        "base": f"http://127.0.0.1:{policy.port}",
        "tcp": [
            *([urlsplit(url).hostname, urlsplit(url).port, label] for label, url in others.items()),
            *([address, urlsplit(gym.running.head_url).port, f"head by {address}"] for address in own_addresses()),
            ["169.254.169.254", 80, "metadata address"],
            ["127.0.0.1", 22, "ssh"],
        ],
        "host_file": str(PROBE),
        "secrets": [sha256(secret) for secret in (PROVIDER_KEY, JUDGE_KEY, gym.running.token)],
        "old_key": old_key,
        "session_like": "x1234-a0-00000000",
    }
    source = PROBE.read_text().removesuffix("\nmain()\n") + LOOK_AROUND
    packed = base64.b64encode(zlib.compress(source.encode(), 9)).decode()
    unpack = "import base64,sys,zlib; exec(zlib.decompress(base64.b64decode(sys.argv.pop(1))))"
    spy.command = shlex.join(["python3", "-I", "-c", unpack, packed, json.dumps(config)])
    row = await gym.play(OPENCODE)
    assert (row["reward"], row["failure_kind"]) == (1.0, None), row["failure_reason"]
    assert "failed" not in spy.report, spy.report
    return spy.report


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def own_addresses() -> list[str]:
    """Of this machine's interfaces, as other machines would call it."""
    found = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    return [str(address) for address in found if not str(address).startswith("127.")]


async def status_of(url: str, key: str) -> int:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as http, http.get(url) as reply:
        return reply.status


async def test_a_model_finds_one_door_and_one_key_and_the_key_dies_with_its_session(tmp_path: Path) -> None:
    spy = Spy()
    async with live_gym(tmp_path, spy) as gym:
        seen = await look_around(gym, spy)
        models = f"{(await gym.server(POLICY))['url']}/v1/models"
        after = await status_of(models, seen["key"])
        again = await look_around(gym, spy, old_key=seen["key"])

    assert {name: why for name, (is_ok, why) in seen["walls"].items() if not is_ok} == {}
    assert len(seen["walls"]) > 40
    assert seen["http"]["own key"] == {"GET /v1/models": 200, "POST /v1/chat/completions": 200}
    assert set(seen["http"]["own key, other doors"].values()) == {401}
    assert set(seen["http"]["other keys"].values()) == {401}
    assert seen["secrets"] == 0
    assert seen["tokens"] == [seen["key"]]

    assert after == 401
    assert again["key"] != seen["key"]
    assert again["http"]["other keys"]["ended session's"] == 401


async def test_the_search_for_credentials_would_find_one(tmp_path: Path) -> None:
    """The control: a token and a provider's key that lie there on purpose are seen."""
    planted = new_token()
    spy = Spy(before=f"echo {planted} > /tmp/planted; echo {PROVIDER_KEY} > .hidden; ")
    async with live_gym(tmp_path, spy) as gym:
        seen = await look_around(gym, spy)
    assert sorted(seen["tokens"]) == sorted([seen["key"], planted])
    assert seen["secrets"] == 1


async def test_the_scripted_policy_behind_its_proxy_is_closed_to_a_session(tmp_path: Path) -> None:
    """Its endpoint is mounted on the policy server itself, the one that sandboxes reach."""
    async with live_gym(tmp_path, Spy(), policy_files=SCRIPTED) as gym:
        url = (await gym.server(POLICY))["url"]
        playing = asyncio.create_task(gym.play(OPENCODE))
        await gym.until(lambda: bool(opencode_processes()))
        key = session_key(opencode_processes()[0])
        paths = ("/v1/models", "/scripted_endpoint/v1/models", "/scripted_endpoint", "/v1/capture_sessions/s1")
        own = [await status_of(url + path, key) for path in paths]
        none = [await status_of(url + path, "made-up") for path in paths]
        row = await playing
    assert own == [200, 401, 401, 401]
    assert none == [401, 401, 401, 401]
    assert (row["failure_kind"], row["mask_sample"]) in ((None, False), ("no_final_answer", False))


def session_key(opencode_pid: int) -> str:
    """Read from the host in the files of the sandbox that a process lives in."""
    config = json.loads(Path(f"/proc/{opencode_pid}/root/home/agent/.gym-run/opencode.json").read_text())
    key: str = config["provider"]["policy"]["options"]["apiKey"]
    return key
