"""The Docker provider: containers without a network, and our own process 1 in each of them."""

import asyncio
from functools import partial
from pathlib import Path

from gym_core.errors import SandboxError, SandboxUnavailable
from gym_core.sandbox.box import init
from gym_core.sandbox.box.box import BoxSandbox
from gym_core.sandbox.box.entry import must_be_admissible, must_be_new
from gym_core.sandbox.box.seccomp import seccomp_filter
from gym_core.sandbox.contract import ModelOnly, SandboxInfo, SandboxSpec, SweepReport
from gym_core.sandbox.providers.docker.cell import DockerCell, Site
from gym_core.sandbox.providers.docker.container import Ground, enforcement
from gym_core.sandbox.providers.docker.engine import Engine, EngineInfo, ImageInfo
from gym_core.sandbox.providers.docker.settings import DockerSandboxConfig
from gym_core.sandbox.providers.docker.sweep import look, sweep
from gym_core.sandbox.providers.local.state import BoxRecords, own_folder
from gym_core.sandbox.providers.local.trial import try_out
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement

_BUILD = "`gym sandbox build --provider docker` makes the gym's own"


class DockerProvider:
    """Use it on one event loop."""

    name = "docker"

    def __init__(self, config: DockerSandboxConfig | None = None) -> None:
        self._config = config or DockerSandboxConfig()
        self._engine = Engine(self._config.url)
        self._surveying = asyncio.Lock()
        self._site: Site | None = None
        self._images: dict[str, ImageInfo] = {}
        self._boxes: dict[str, BoxSandbox] = {}

    async def check(self) -> SandboxEnforcement:
        """Runs a sandbox of the configured image and tries its walls: a second, and once the image's pull. Without
        one it looks at the engine alone, and says what sandboxes there will have."""
        if self._config.image is None:
            return enforcement((await self._survey()).info, ModelOnly(host="127.0.0.1", port=1))
        return await try_out(self.create, python=self._config.python)

    async def create(self, sandbox_id: SafeId, spec: SandboxSpec) -> BoxSandbox:
        """About half a second; longer for the first of an image that the engine does not have."""
        self._admit(sandbox_id, spec)
        site = await self._survey()
        ground = await self._ground(site, spec.image or self._config.image)
        self._admit(sandbox_id, spec)  # again: others may have come meanwhile
        box = BoxSandbox(
            sandbox_id,
            spec,
            partial(DockerCell, sandbox_id, spec, site, ground),
            lambda: self._forget(sandbox_id, box),
        )
        self._boxes[sandbox_id] = box
        try:
            await box.open()
        except (OSError, SandboxError) as error:
            await box.close()
            if isinstance(error, SandboxUnavailable):
                raise
            raise SandboxUnavailable(f"docker: {sandbox_id!r} not made: {error}") from error
        except BaseException:
            await box.close()
            raise
        return box

    async def list(self) -> list[SandboxInfo]:
        """All of the engine's, whoever made them, and what dead owners left on this machine."""
        expiries = {box.record_name: box.expires_at for box in self._boxes.values()}
        seen = await look(self._engine, BoxRecords(self._config.state_path))
        return [one.info.model_copy(update={"expires_at": expiries.get(one.name)}) for one in seen]

    async def sweep(self) -> SweepReport:
        """Waits for those of ours that are ending by themselves."""
        await asyncio.gather(*(box.close() for box in list(self._boxes.values()) if box.is_ending))
        return await sweep(self._engine, self._config.state_path)

    async def aclose(self) -> None:
        await asyncio.gather(*(box.close() for box in list(self._boxes.values())))
        if self._site:
            self._site.records.close()
        await self._engine.aclose()

    async def _survey(self) -> Site:
        async with self._surveying:
            if self._site is None:
                info = await self._engine.info()
                must_limit(info)
                own_folder(self._config.state_path)
                self._site = Site(
                    engine=self._engine,
                    info=info,
                    state_path=self._config.state_path,
                    records=BoxRecords(self._config.state_path),
                    python=self._config.python,
                    seccomp=seccomp_filter(),
                    init=await asyncio.to_thread(Path(init.__file__).read_bytes),
                )
            return self._site

    async def _ground(self, site: Site, image: str | None) -> Ground:
        if image is None:
            raise SandboxUnavailable(f"docker: no image is named: set `image` of the sandbox; {_BUILD}")
        async with self._surveying:  # one pull, however many wait for it
            if image not in self._images:
                self._images[image] = await self._image(image)
            return Ground(site.info, self._images[image])

    async def _image(self, name: str) -> ImageInfo:
        if found := await self._engine.image(name):
            return found
        try:
            await self._engine.pull(name)
        except SandboxUnavailable as error:
            raise SandboxUnavailable(f"docker: the engine has no image {name!r}: {error}; {_BUILD}") from error
        if found := await self._engine.image(name):
            return found
        raise SandboxUnavailable(f"docker: image {name!r} was pulled and is not there; {_BUILD}")

    def _admit(self, sandbox_id: SafeId, spec: SandboxSpec) -> None:
        must_be_new(sandbox_id, self._boxes)
        must_be_admissible(spec, self._boxes, max_memory_mib=self._config.max_memory_mib, provider="docker")

    def _forget(self, sandbox_id: SafeId, box: BoxSandbox) -> None:
        if self._boxes.get(sandbox_id) is box:
            del self._boxes[sandbox_id]


def must_limit(engine: EngineInfo) -> None:
    """A wall that the engine would leave out without a word is refused here."""
    if engine.os_type != "linux":
        raise SandboxUnavailable(f"docker: the engine runs {engine.os_type!r} containers; sandboxes need Linux ones")
    lacks = [
        name
        for name, has in (
            ("memory", engine.limits_memory),
            ("processes", engine.limits_processes),
            ("cores", engine.limits_cores),
        )
        if not has
    ]
    if lacks:
        raise SandboxUnavailable(
            f"docker: the engine cannot limit {', '.join(lacks)}: it needs those control groups (rootless Docker: "
            "cgroup v2 with their controllers delegated to the user)"
        )
    if not any(option.startswith("name=seccomp") for option in engine.security):
        raise SandboxUnavailable("docker: the engine has no system-call filter; use one with seccomp")
