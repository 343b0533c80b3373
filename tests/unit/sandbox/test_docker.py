"""What the Docker provider asks an engine for, and what it says when there is none. No engine is needed here."""

import io
import json
import re
import socket
import tarfile
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import ModelOnly, Mount, SandboxResources, SandboxSpec
from gym_core.sandbox.owner import Owner
from gym_core.sandbox.providers.docker import DockerProvider, DockerSandboxConfig
from gym_core.sandbox.providers.docker.build import image_context
from gym_core.sandbox.providers.docker.container import Ground, Place, container_body, sandbox_info
from gym_core.sandbox.providers.docker.engine import ContainerInfo, EngineInfo, ImageInfo
from gym_core.sandbox.providers.docker.provider import must_limit
from gym_core.sandbox.providers.local.state import BoxRecords, Claim
from gym_core.sandbox.toolkit.pins import image_folder
from gym_core.types.wire import JsonObject

ENGINE: JsonObject = {
    "ServerVersion": "28.0.0",
    "OSType": "linux",
    "NCPU": 4,
    "CgroupVersion": "2",
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
    "OfNoInterest": {"to": "us"},
}
IMAGE: JsonObject = {
    "Id": "sha256:abc",
    "Config": {"Env": ["PATH=/opt/bin:/usr/bin", "HOME=/root", "CUDA=12=x"], "Volumes": {"/data": {}}},
}


CLAIM = Claim(owner=str(Owner.here()), lifeline="812-0123456789abcdef", ends_by=4e9)


def body_of(*, claim: Claim = CLAIM, **changes: object) -> JsonObject:
    spec = SandboxSpec.model_validate(changes)
    ground = Ground(EngineInfo.model_validate(ENGINE), ImageInfo.model_validate(IMAGE))
    return container_body("box-1", spec, ground, Place(Path("/run/gym/docker/x"), "python3", claim))


def test_a_container_has_no_network_no_privilege_and_a_limit_on_everything() -> None:
    resources = SandboxResources(cpu=64, memory_mib=512, pids=99, workspace_mib=32)
    body = body_of(resources=resources, network=ModelOnly(host="127.0.0.1", port=80))
    host = body["HostConfig"]
    assert body["User"] == "1000:1000"
    assert (host["NetworkMode"], host["CapDrop"], host["SecurityOpt"]) == ("none", ["ALL"], ["no-new-privileges"])
    assert (host["ReadonlyRootfs"], host["AutoRemove"], host["IpcMode"]) == (True, True, "private")
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (512 << 20, 512 << 20, 99)
    assert host["NanoCpus"] == 4e9  # an engine refuses more cores than there are
    assert "Privileged" not in host
    assert "size=33554432" in host["Tmpfs"]["/workspace"]
    assert body["Entrypoint"][:5] == ["python3", "-I", "-S", "/.gym_init.py", "/.gym/control"]
    assert body["Entrypoint"][5] == "20080"  # nobody inside may bind port 80


def test_all_that_can_be_written_is_in_memory_and_sized_an_image_s_volumes_too() -> None:
    tmpfs = body_of()["HostConfig"]["Tmpfs"]
    assert set(tmpfs) == {"/workspace", "/tmp", "/run", "/home/agent", "/data"}
    assert all(re.search(r"nosuid,nodev,size=\d+,", options) for options in tmpfs.values())


def test_mounts_are_read_only() -> None:
    mounts = body_of(mounts=[Mount(source="/srv/tool", target="/opt/tool")])["HostConfig"]["Mounts"]
    assert {mount["Target"] for mount in mounts} == {"/.gym_init.py", "/.gym", "/opt/tool"}
    assert all(mount["ReadOnly"] for mount in mounts)


def test_commands_get_the_image_s_environment_but_our_home() -> None:
    env = Ground(EngineInfo.model_validate(ENGINE), ImageInfo.model_validate(IMAGE)).env
    assert (env["PATH"], env["CUDA"], env["HOME"]) == ("/opt/bin:/usr/bin", "12=x", "/home/agent")


def test_labels_say_whose_it_is_and_are_read_back(tmp_path: Path) -> None:
    labels = body_of(metadata={"episode": "e-a0"})["Labels"]
    info = sandbox_info(container(labels, state="running"), BoxRecords(tmp_path))
    assert (info.sandbox_id, info.owner, info.metadata) == ("box-1", str(Owner.here()), {"episode": "e-a0"})
    assert not info.is_orphan


@pytest.mark.parametrize("metadata", ["", "no json", "[]", '{"a": 1}', '{"a": {}}'])
def test_labels_that_a_person_wrote_do_no_harm(metadata: str, tmp_path: Path) -> None:
    labels = {"gym.sandbox": "x", "gym.owner": "me", "gym.lifeline": "../../etc", "gym.ends-by": "²"}
    info = sandbox_info(container({**labels, "gym.metadata": metadata}, state="running"), BoxRecords(tmp_path))
    assert (info.metadata, info.is_orphan) == ({}, False)


DEAD = str(Owner.here().model_copy(update={"start_ticks": 1}))
ELSEWHERE = str(Owner.here().model_copy(update={"pid_namespace": 1, "start_ticks": 1}))


@pytest.mark.parametrize(
    ("labels", "state", "is_orphan"),
    [
        ({"gym.owner": DEAD}, "running", True),
        ({"gym.owner": ELSEWHERE}, "running", False),
        ({"gym.owner": ELSEWHERE}, "created", True),
        ({"gym.owner": ELSEWHERE, "gym.ends-by": "1700000000"}, "paused", True),
        ({"gym.owner": ELSEWHERE, "gym.ends-by": "4000000000"}, "paused", False),
    ],
)
def test_a_dead_owner_s_one_that_has_long_not_run_and_one_past_its_end_are_orphans(
    labels: dict[str, str], state: str, is_orphan: bool, tmp_path: Path
) -> None:
    assert sandbox_info(container(labels, state=state), BoxRecords(tmp_path)).is_orphan is is_orphan


def test_an_owner_in_another_container_is_alive_while_he_holds_his_file_in_the_folder_we_share(tmp_path: Path) -> None:
    his, ours = BoxRecords(tmp_path), BoxRecords(tmp_path)
    claim = his.claim(longest_s=60).model_copy(update={"owner": ELSEWHERE})
    left = container(body_of(claim=claim)["Labels"], state="running")
    his.write("kept", "box-1", claim=claim, cgroups=[], metadata={})
    assert not sandbox_info(left, ours).is_orphan
    his.close()
    assert sandbox_info(left, ours).is_orphan


def container(labels: dict[str, str], *, state: str) -> ContainerInfo:
    return ContainerInfo.model_validate(
        {"Id": "c1", "Names": ["/gym-1"], "Labels": labels, "State": state, "Created": 1_700_000_000}
    )


# -- what cannot be had -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"MemoryLimit": False, "PidsLimit": False}, "memory, processes"),
        ({"OSType": "windows"}, "need Linux"),
        ({"SecurityOptions": ["name=apparmor"]}, "system-call filter"),
    ],
)
def test_an_engine_that_would_leave_out_a_wall_is_refused(changes: JsonObject, said: str) -> None:
    must_limit(EngineInfo.model_validate(ENGINE))
    with pytest.raises(SandboxUnavailable, match=said):
        must_limit(EngineInfo.model_validate(ENGINE | changes))


async def said_by(**settings: str) -> str:
    provider = DockerProvider(DockerSandboxConfig.model_validate(settings))
    try:
        with pytest.raises(SandboxUnavailable) as caught:
            await provider.create("box", SandboxSpec(image="an-image"))
        return str(caught.value)
    finally:
        await provider.aclose()


async def test_where_no_engine_is_the_message_says_what_to_start(tmp_path: Path) -> None:
    assert "start Docker" in await said_by(host=f"unix://{tmp_path}/nothing.sock")


async def test_an_engine_of_another_machine_is_refused() -> None:
    assert "opensandbox" in await said_by(host="tcp://198.18.0.1:2375")


async def test_what_does_not_speak_http_is_no_engine(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert "start Docker" in await said_by(host=f"unix://{path}")


# -- the image --------------------------------------------------------------------------------------------------------


def test_the_build_s_context_holds_every_file_that_the_dockerfile_copies() -> None:
    with tarfile.open(fileobj=io.BytesIO(image_context())) as tar:
        names = set(tar.getnames())
    copied = [
        word
        for line in (image_folder() / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert len(copied) > 5
    for word in copied:
        assert any(name == word or name.startswith(word.rstrip("/") + "/") for name in names), word


def test_the_context_holds_no_version_but_those_of_the_pins() -> None:
    dockerfile = (image_folder() / "Dockerfile").read_text()
    assert not re.search(r"==|@\d|[0-9a-f]{40}", dockerfile)
    assert json.dumps("1.17.11") not in dockerfile
