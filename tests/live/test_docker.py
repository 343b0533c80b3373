"""The Docker provider on a real engine: the image that it builds, and real OpenCode in a container of that image."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox import toolkit
from gym_core.sandbox.contract import Launch, SandboxSpec
from gym_core.sandbox.providers.docker import DockerProvider, DockerSandboxConfig
from gym_core.sandbox.toolkit.pins import load_pins
from tests.fakes.model import Says
from tests.live.docker_engine import SANDBOX, sandbox_image_words
from tests.live.gyms import ANSWER, OPENCODE, RESOURCES, bash, live_gym, needs_toolkit, script
from tests.sandboxes.containers import docker_settings

pytestmark = [pytest.mark.live, pytest.mark.docker, pytest.mark.slow]

LOOK = """
import pathlib, PIL.Image
for path in pathlib.Path("/workspace").rglob("*.png"):
    print(PIL.Image.open(path).size)
"""
_BUILD_TIMEOUT_S = 1500


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Built by the command that users run, on a base image that was made here."""
    host = docker_settings(tmp_path_factory.mktemp("engine")).url
    argv = [sys.executable, "-m", "gym_core.cli.main", *sandbox_image_words(host)]
    built = subprocess.run(argv, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False)
    assert built.returncode == 0, built.stderr[-2000:]
    assert f"{SANDBOX}: sha256:" in built.stdout
    return SANDBOX


async def said_inside(
    settings: DockerSandboxConfig, image: str, script: str, *, output_cap_bytes: int = 1 << 20
) -> str:
    provider = DockerProvider(settings)
    try:
        sandbox = await provider.create(f"look-{os.getpid()}", SandboxSpec(image=image))
        done = await sandbox.exec(Launch(argv=["sh", "-c", script], timeout_s=120, output_cap_bytes=output_cap_bytes))
        assert done.ok, done
        assert not done.truncated
        return done.stdout.decode()
    finally:
        await provider.aclose()


SUMS = "cd /opt/toolkit && find . -type f ! -name manifest.json -print0 | xargs -0 sha256sum"


@needs_toolkit
async def test_the_image_carries_byte_for_byte_what_the_embedded_provider_s_toolkit_does(
    tmp_path: Path, image: str
) -> None:
    """Computed from the files in the container, not read from what the image says of itself."""
    settings = docker_settings(tmp_path)
    said = await said_inside(settings, image, SUMS, output_cap_bytes=4 << 20)
    found = {path.removeprefix("./"): digest for digest, path in (line.split("  ", 1) for line in said.splitlines())}
    own = toolkit.read_manifest(toolkit.toolkit_dir())
    theirs = json.loads(await said_inside(settings, image, "cat /opt/toolkit/manifest.json", output_cap_bytes=4 << 20))
    assert theirs["versions"].keys() == own.versions.keys()
    wanted = {path: entry.content for path, entry in own.entries.items() if entry.kind == "file"}
    if theirs["identity"] != own.identity:  # made for another Python: the packages' compiled parts are others
        found, wanted = without_python(found), without_python(wanted)
    assert wanted["bin/opencode"] == load_pins().opencode.binary_sha256
    assert wanted["bin/rg"] == load_pins().ripgrep.binary_sha256
    assert len(wanted) > 5
    assert found == wanted


def without_python(digests: dict[str, str]) -> dict[str, str]:
    return {
        path: digest
        for path, digest in digests.items()
        if path in ("bin/opencode", "bin/rg") or path[:9] == "opencode/"
    }


async def test_its_programs_run_as_a_user_without_a_way_up(tmp_path: Path, image: str) -> None:
    script = (
        "opencode --version; id -un; "
        "python3 -c 'import PIL, av, cv2, matplotlib.pyplot, numpy, scipy; print(numpy.__version__)'; "
        "find / -xdev -perm /6000 -type f 2>/dev/null | wc -l"
    )
    assert await said_inside(docker_settings(tmp_path), image, script) == "1.17.11\nagent\n2.4.6\n0\n"


@needs_toolkit
async def test_opencode_plays_a_rollout_in_a_container(tmp_path: Path, image: str) -> None:
    settings = docker_settings(tmp_path)
    look = bash(
        "python3 -c \"import PIL.Image as I; print(I.open('/workspace/' + __import__('os').listdir('.')[0]).size)\""
    )
    where = Says("Where am I?", (bash("test -e /.dockerenv && ls -d /opt/toolkit"),))
    turns = script(where, Says("Look.", (look,)), ANSWER)
    server = f"{RESOURCES}.resources_servers.visual_coding_opencode"
    changes: dict[str, object] = {
        "containers.docker": settings.model_dump(exclude_none=True, exclude={"image"}),
        f"{server}.sandbox_provider": "containers",
        f"{server}.sandbox_config.image": image,
    }
    async with live_gym(tmp_path, turns, changes=changes) as gym:
        row = await gym.play(OPENCODE)
        told = [str(message) for seen in gym.asked for message in seen.body["messages"] if message["role"] == "tool"]
    assert (row["reward"], row["failure_kind"]) == (1.0, None), row["failure_reason"]
    assert "/opt/toolkit" in told[0]
    assert any("(32, 24)" in text for text in told)
    assert row["_gym_sandbox"]["provider"] == "docker"
    assert row["_gym_sandbox"]["network"] == "exact_port"
    provider = DockerProvider(settings)
    try:
        assert await provider.list() == []
    finally:
        await provider.aclose()


async def test_an_image_that_cannot_be_had_is_named_with_the_command_that_builds_one(tmp_path: Path) -> None:
    provider = DockerProvider(docker_settings(tmp_path))
    try:
        async with asyncio.timeout(120):
            with pytest.raises(SandboxUnavailable, match=r"no-such-image.*gym sandbox build --provider docker"):
                await provider.create("none", SandboxSpec(image="127.0.0.1:1/no-such-image:1"))
    finally:
        await provider.aclose()


async def test_an_image_without_python_says_so(tmp_path: Path) -> None:
    provider = DockerProvider(docker_settings(tmp_path).model_copy(update={"python": "python9"}))
    try:
        with pytest.raises(SandboxUnavailable, match="python9"):
            await provider.create("none", SandboxSpec())
        assert await provider.list() == []
    finally:
        await provider.aclose()
