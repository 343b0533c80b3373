"""The Docker SDK, which blocks, behind calls that do not: each has a deadline of its own and ends in our errors.

The only module that imports `docker`.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

import docker
import docker.errors
import requests
from docker.utils import socket as streams
from pydantic import Field

from gym_core.errors import SandboxUnavailable
from gym_core.types.wire import JsonObject, Wire

log = logging.getLogger(__name__)

T = TypeVar("T")

_THREADS = 16
_CALL_TIMEOUT_S = 60.0
_PULL_TIMEOUT_S = 1800.0
_BUILD_TIMEOUT_S = 3600.0
_HTTP_MARGIN_S = 5.0
"""The SDK gives up this much after us; its thread is then free again."""

_CONNECT_TIMEOUT_S = 5.0
_REMOVED_TIMEOUT_S = 30.0
_REMOVED_LOOK_S = 0.02
_SAID_BYTES = 4096
_GONE, _CONFLICT = 404, 409


class _Read(Wire):
    """A stranger's reply: of its many fields, those we use."""

    model_config = {"extra": "ignore", "frozen": True}


class EngineInfo(_Read):
    version: str = Field(alias="ServerVersion")
    os_type: str = Field(alias="OSType")
    cores: int = Field(alias="NCPU")
    cgroup_version: str = Field(default="1", alias="CgroupVersion")
    limits_memory: bool = Field(default=False, alias="MemoryLimit")
    limits_processes: bool = Field(default=False, alias="PidsLimit")
    limits_cores: bool = Field(default=False, alias="CpuCfsQuota")
    security: list[str] = Field(default=[], alias="SecurityOptions")


class _ImageConfig(_Read):
    env: list[str] | None = Field(default=None, alias="Env")
    volumes: dict[str, JsonObject] | None = Field(default=None, alias="Volumes")


class ImageInfo(_Read):
    id: str = Field(alias="Id")
    config: _ImageConfig | None = Field(default=None, alias="Config")

    @property
    def env(self) -> dict[str, str]:
        pairs = (word.partition("=") for word in (self.config and self.config.env) or [])
        return {name: value for name, _, value in pairs}

    @property
    def volumes(self) -> list[str]:
        return list((self.config and self.config.volumes) or {})


class ContainerInfo(_Read):
    id: str = Field(alias="Id")
    names: list[str] = Field(default=[], alias="Names")
    labels: dict[str, str] = Field(default={}, alias="Labels")
    state: str = Field(alias="State")
    """"created", "running", "exited", "removing", "dead", ..."""
    created_at: float = Field(alias="Created")
    """Unix time, seconds."""

    @property
    def name(self) -> str:
        return self.names[0].lstrip("/") if self.names else self.id


class Engine:
    """Every method raises SandboxUnavailable when the engine cannot be reached, is late or refuses."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._threads = ThreadPoolExecutor(_THREADS, "docker")
        self._connecting = asyncio.Lock()
        self._found: Any = None  # docker.APIClient; the SDK has no types

    async def info(self) -> EngineInfo:
        return EngineInfo.model_validate(await self._call(lambda api: api.info(), "info"))

    async def image(self, name: str) -> ImageInfo | None:
        """None when the engine does not have it."""

        def look(api: Any) -> Any:
            with contextlib.suppress(docker.errors.ImageNotFound):
                return api.inspect_image(name)

        found = await self._call(look, f"look at image {name!r}")
        return None if found is None else ImageInfo.model_validate(found)

    async def pull(self, name: str) -> None:
        def pull(api: Any) -> None:
            # The error of a pull that began is a line of its reply.
            for line in api.pull(name, tag=None if _has_tag(name) else "latest", stream=True, decode=True):
                if "error" in line:
                    raise docker.errors.APIError(line["error"])

        await self._call(pull, f"pull image {name!r}", _PULL_TIMEOUT_S)

    async def create(self, name: str, body: JsonObject) -> None:
        """A container with this name; `body` is the API's own. It does not run yet."""
        await self._call(lambda api: api.create_container_from_config(body, name), f"create {name!r}")

    async def start(self, name: str) -> "Stderr":
        """Run it. The caller closes what comes back."""

        def start(api: Any) -> Stderr:
            stderr = Stderr(api.attach_socket(name, params={"stderr": 1, "stream": 1}))
            try:
                api.start(name)
            except BaseException:
                stderr.close()
                raise
            return stderr

        return await self._call(start, f"start {name!r}")

    async def is_running(self, name: str) -> bool:
        def look(api: Any) -> bool:
            try:
                return bool(api.inspect_container(name)["State"]["Running"])
            except docker.errors.NotFound:
                return False

        return await self._call(look, f"look at {name!r}")

    async def remove(self, name: str) -> None:
        """Kill and remove a container, with the volumes it made. One that is gone, or is just going, is fine; when this
        returns there is none."""

        def remove(api: Any) -> bool:
            try:
                api.remove_container(name, force=True, v=True)
            except docker.errors.APIError as error:
                if error.status_code not in (_GONE, _CONFLICT):
                    raise
                return bool(error.status_code == _GONE)
            return True

        async with asyncio.timeout(_REMOVED_TIMEOUT_S):
            while not await self._call(remove, f"remove {name!r}"):  # noqa: ASYNC110 - it has no event for us
                await asyncio.sleep(_REMOVED_LOOK_S)

    async def containers(self, label: str) -> list[ContainerInfo]:
        """With this label, running or not."""
        found = await self._call(lambda api: api.containers(all=True, filters={"label": label}), "list containers")
        return [ContainerInfo.model_validate(container) for container in found]

    async def build(self, context: BinaryIO, options: "BuildOptions", say: Callable[[str], None]) -> None:
        """`context` is a tar file. `say` gets the build's lines, in a thread."""

        def build(api: Any) -> None:
            lines = api.build(
                fileobj=context,
                custom_context=True,
                dockerfile=options.dockerfile,
                tag=options.tag,
                buildargs=options.arguments,
                network_mode=options.network,
                rm=True,
                forcerm=True,
                decode=True,
            )
            for line in _build_lines(lines):
                say(line)

        await self._call(build, f"build {options.tag!r}", _BUILD_TIMEOUT_S)

    async def aclose(self) -> None:
        if self._found is not None:
            self._found.close()
            self._found = None
        self._threads.shutdown(wait=False)

    async def _call(self, use: Callable[[Any], T], what: str, timeout_s: float = _CALL_TIMEOUT_S) -> T:
        api = await self._api()
        return await self._in_thread(lambda: use(api), what, timeout_s)

    async def _api(self) -> Any:
        async with self._connecting:
            if self._found is None:
                self._found = await self._in_thread(lambda: _connect(self._url), "reach", _CONNECT_TIMEOUT_S)
            return self._found

    async def _in_thread(self, use: Callable[[], T], what: str, timeout_s: float) -> T:
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.get_running_loop().run_in_executor(self._threads, use)
        except TimeoutError as error:
            raise SandboxUnavailable(f"docker: {what}: no answer from {self._url!r} in {timeout_s:g} s") from error
        except docker.errors.APIError as error:
            raise SandboxUnavailable(f"docker: {what}: {error.explanation or error}") from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxUnavailable(f"docker: {what}: {error}") from error


class BuildOptions(Wire):
    tag: str
    dockerfile: str
    """Its path in the context."""
    arguments: dict[str, str] = {}
    """Build arguments."""
    network: str | None = None
    """Of the build's steps, such as "host"; None is the engine's default."""


class Stderr:
    """What a container's process 1 says, for the message when it does not come up."""

    def __init__(self, attached: Any) -> None:
        self._attached = attached
        self._socket: socket.socket = attached._sock

    def read(self) -> str:
        """What there is by now; blocks for a second at most."""
        said = b""
        self._socket.settimeout(1.0)
        with contextlib.suppress(OSError):
            for _, data in streams.frames_iter(self._attached, tty=False):
                said += data
                if len(said) >= _SAID_BYTES:
                    break
        return said.decode(errors="replace").strip()[-_SAID_BYTES:]

    def close(self) -> None:
        self._socket.close()
        self._attached.close()


def _connect(url: str) -> Any:
    """Looks first: the SDK's own words for what bars the way are long and say little."""
    path = urlsplit(url).path
    if not url.startswith("unix://"):
        raise SandboxUnavailable(
            f"docker: {url!r} is an engine of another machine, and commands go through a socket of this one; name a "
            "socket here (unix:///var/run/docker.sock), or use the opensandbox provider"
        )
    try:
        with socket.socket(socket.AF_UNIX) as attempt:
            attempt.connect(path)
    except PermissionError as error:
        raise SandboxUnavailable(
            f"docker: no permission at {path!r}: run as a member of its group (which is as good as root), or use "
            "rootless Docker and set `host`"
        ) from error
    except OSError as error:
        raise SandboxUnavailable(
            f"docker: no engine at {path!r} ({error.strerror}): start Docker, or set `host` or DOCKER_HOST"
        ) from error
    api = docker.APIClient(base_url=url, version="auto", timeout=_CALL_TIMEOUT_S + _HTTP_MARGIN_S)
    api.headers["Connection"] = "close"  # a new one costs next to nothing here; idle ones would hold descriptors
    return api


def _has_tag(name: str) -> bool:
    return "@" in name or ":" in name.rpartition("/")[2]


def _build_lines(lines: Any) -> Iterator[str]:
    for line in lines:
        if "error" in line:
            raise docker.errors.APIError(line["error"])
        if text := line.get("stream", line.get("status", "")).rstrip():
            yield text
