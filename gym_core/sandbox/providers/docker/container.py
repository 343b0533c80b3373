"""What the engine is asked for: one container, with every wall it can put up, and the labels that tell whose it is."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gym_core.sandbox.box.layout import (
    ENV,
    HOME,
    HOME_MIB,
    INIT_PATH,
    OPEN_FILES,
    RUN_MIB,
    SHM_MIB,
    TMP_MIB,
    InitStart,
)
from gym_core.sandbox.contract import ModelOnly, NetworkPolicy, SandboxInfo, SandboxSpec
from gym_core.sandbox.providers.docker.engine import ContainerInfo, EngineInfo, ImageInfo
from gym_core.sandbox.providers.local.state import BoxRecords, Claim
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement
from gym_core.types.wire import JsonObject, Wire

USER = 1000
LABEL = "gym.sandbox"
"""Its value is the sandbox's id; a container without it is none of ours."""

_OWNER, _LIFELINE, _ENDS_BY, _METADATA = "gym.owner", "gym.lifeline", "gym.ends-by", "gym.metadata"
_FOLDER = "/.gym"
CONTROL, FILTER, INIT = "control", "filter", "init.py"
"""Files of a sandbox's folder on the host, which it sees read-only."""

_IDLE_STATES = ("created", "exited", "dead")
_IDLE_AFTER_S = 600.0
"""A container that does not run for so long is nobody's: one that is being made, or removed, takes seconds."""


@dataclass(frozen=True)
class Ground:
    """What a container stands on."""

    engine: EngineInfo
    image: ImageInfo

    @property
    def env(self) -> dict[str, str]:
        """The image's own, but home and temporary folder are those that we make."""
        fixed = {name: ENV[name] for name in ("HOME", "USER", "TMPDIR")}
        return ENV | self.image.env | fixed


def enforcement(engine: EngineInfo, network: NetworkPolicy) -> SandboxEnforcement:
    return SandboxEnforcement(
        provider="docker",
        mechanism=f"docker {engine.version}",
        network="exact_port" if isinstance(network, ModelOnly) else "none",
        memory=f"cgroup_v{engine.cgroup_version}",
        seccomp=True,
        user="shared_uid",
    )


@dataclass(frozen=True)
class Place:
    """Of one container on this machine."""

    folder: Path
    """With the three files, for the engine to see too."""
    python: str
    claim: Claim


def container_body(sandbox_id: SafeId, spec: SandboxSpec, ground: Ground, place: Place) -> JsonObject:
    """As the engine's API takes it."""
    start = InitStart(control=f"{_FOLDER}/{CONTROL}", filter_path=f"{_FOLDER}/{FILTER}")
    folder = place.folder
    return {
        "Image": ground.image.id,
        "Entrypoint": start.argv(place.python, spec),
        "Cmd": [],
        "User": f"{USER}:{USER}",
        "WorkingDir": spec.workdir,
        "Hostname": "sandbox",
        "Labels": _labels(sandbox_id, spec, place.claim),
        "Healthcheck": {"Test": ["NONE"]},
        "AttachStderr": True,
        "HostConfig": {
            "NetworkMode": "none",
            "ExtraHosts": ["sandbox:127.0.0.1"],
            "IpcMode": "private",
            "AutoRemove": True,  # process 1 ends when its owner does, and then nothing is left
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Init": False,
            "LogConfig": {"Type": "none"},
            "ShmSize": SHM_MIB << 20,
            "Tmpfs": _tmpfs(spec, ground.image),
            "Mounts": [
                _mount(folder / INIT, INIT_PATH),
                _mount(folder, _FOLDER),
                *(_mount(Path(mount.source), mount.target) for mount in spec.mounts),
            ],
            "Ulimits": [_limit("nofile", OPEN_FILES), _limit("core", 0)],
            **_limits(spec, ground.engine),
        },
    }


def _limits(spec: SandboxSpec, engine: EngineInfo) -> JsonObject:
    memory = spec.resources.memory_mib << 20
    return {
        "Memory": memory,
        "MemorySwap": memory,  # memory and swap together: no swap
        "PidsLimit": spec.resources.pids,
        # The engine refuses more cores than there are.
        "NanoCpus": int(min(spec.resources.cpu, engine.cores) * 1e9),
    }


def _limit(name: str, value: int) -> JsonObject:
    return {"Name": name, "Soft": value, "Hard": value}


def _mount(source: Path, target: str) -> JsonObject:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}


def _tmpfs(spec: SandboxSpec, image: ImageInfo) -> JsonObject:
    """All that can be written to. A volume that the image declares would be a folder of the host's disk, without a
    limit: it becomes one of these."""
    sizes = dict.fromkeys(image.volumes, TMP_MIB)
    sizes |= {"/tmp": TMP_MIB, "/run": RUN_MIB, HOME: HOME_MIB, spec.workdir: spec.resources.workspace_mib}
    return {
        path: f"rw,exec,nosuid,nodev,size={mib << 20},mode={1777 if path == '/tmp' else 755},uid={USER},gid={USER}"
        for path, mib in sizes.items()
    }


def _labels(sandbox_id: SafeId, spec: SandboxSpec, claim: Claim) -> dict[str, str]:
    return {
        LABEL: sandbox_id,
        _OWNER: claim.owner,
        _LIFELINE: claim.lifeline,
        _ENDS_BY: "" if claim.ends_by is None else str(int(claim.ends_by)),
        _METADATA: json.dumps(spec.metadata),
    }


class _Metadata(Wire):
    metadata: dict[str, str]


def sandbox_info(container: ContainerInfo, records: BoxRecords) -> SandboxInfo:
    """What its labels say. They are ours, but a person may have written them too."""
    claim = _claim(container.labels)
    created_at = container.created_at
    is_idle = container.state in _IDLE_STATES and time.time() > created_at + _IDLE_AFTER_S
    return SandboxInfo(
        sandbox_id=container.labels.get(LABEL, ""),
        provider="docker",
        owner=claim.owner,
        is_orphan=is_idle or records.is_given_up(claim),
        created_at=created_at,
        expires_at=None,
        metadata=_metadata(container.labels.get(_METADATA, "{}")),
    )


def _claim(labels: dict[str, str]) -> Claim:
    ends_by = labels.get(_ENDS_BY, "")
    return Claim(
        owner=labels.get(_OWNER, ""),
        lifeline=labels.get(_LIFELINE, ""),
        ends_by=float(ends_by) if ends_by.isascii() and ends_by.isdigit() else None,
    )


def _metadata(text: str) -> dict[str, str]:
    try:
        return _Metadata.model_validate({"metadata": json.loads(text)}).metadata
    except (ValueError, ValidationError):
        return {}
