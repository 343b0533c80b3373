"""Cleans up after providers that were killed. Their processes died with them; control groups and records stay."""

from pathlib import Path

from gym_core.sandbox.contract import SweepReport
from gym_core.sandbox.providers.local.cgroup import remove_groups
from gym_core.sandbox.providers.local.state import BoxRecords


async def sweep(state_dir: Path) -> SweepReport:
    """Safe beside living providers, those in other containers too."""
    records = BoxRecords(state_dir)
    removed, kept = [], 0
    for name, record in records.read_all().items():
        if not records.is_orphan(record):
            kept += 1
            continue
        await remove_groups([Path(folder) for folder in record.cgroups])
        records.remove(name)
        removed.append(record.sandbox_id)
    records.clear_owners()
    return SweepReport(removed=removed, kept=kept)
