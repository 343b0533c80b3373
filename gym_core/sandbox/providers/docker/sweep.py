"""What there is of containers and of what belongs to them on this machine, and an end to what nobody owns."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from gym_core.sandbox.contract import SandboxInfo, SweepReport
from gym_core.sandbox.providers.docker.container import LABEL, sandbox_info
from gym_core.sandbox.providers.docker.engine import Engine
from gym_core.sandbox.providers.local.state import BoxRecord, BoxRecords


@dataclass(frozen=True)
class Seen:
    name: str
    """Of the container and of its folder; one of them may be missing."""
    info: SandboxInfo


async def look(engine: Engine, records: BoxRecords) -> list[Seen]:
    """The engine's containers, whoever made them, and what dead owners left of theirs in our state folder. A container
    ends with its owner by itself; its folder does not."""
    seen = [Seen(container.name, sandbox_info(container, records)) for container in await engine.containers(LABEL)]
    names = {one.name for one in seen}
    left = {
        name: record for name, record in records.read_all().items() if name not in names and records.is_orphan(record)
    }
    return [*seen, *(Seen(name, _leftover(record)) for name, record in left.items())]


def _leftover(record: BoxRecord) -> SandboxInfo:
    return SandboxInfo(
        sandbox_id=record.sandbox_id,
        provider="docker",
        owner=record.owner,
        is_orphan=True,
        created_at=record.created_at,
        expires_at=None,
        metadata=record.metadata,
    )


async def sweep(engine: Engine, state_path: Path) -> SweepReport:
    """Safe beside living providers, those in other containers too."""
    records = BoxRecords(state_path)
    removed, kept = [], 0
    for seen in await look(engine, records):
        if not seen.info.is_orphan:
            kept += 1
            continue
        await engine.remove(seen.name)
        await asyncio.to_thread(shutil.rmtree, state_path / seen.name, ignore_errors=True)
        records.remove(seen.name)
        removed.append(seen.info.sandbox_id)
    records.clear_owners()
    return SweepReport(removed=removed, kept=kept)
