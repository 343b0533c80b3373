"""What a run's files tell of tokens and time, and a sink that counts on from there."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from gym_core.errors import ConfigError
from gym_core.rollout.collect import RecordSink
from gym_core.rollout.output import OutputFiles
from gym_core.rollout.sink import read_rows
from gym_core.statistics.spend import SpendTally, failure_spend
from gym_core.types.rollout import Failed, RolloutRecord, RunRequest


def note_files(tally: SpendTally, files: OutputFiles, records: Iterable[RolloutRecord]) -> None:
    """Every attempt that earlier runs left: in `records`, those of the file, and in the failures file. Blocking.

    Raises ConfigError for a line that is none.
    """
    for record in records:
        tally.note_record(record)
    note_failures(tally, files)


def note_failures(tally: SpendTally, files: OutputFiles) -> None:
    """Every attempt that broke. As above."""
    if files.failures.is_file():
        for number, row in enumerate(read_rows(files.failures), start=1):
            try:
                key, evidence, failed_at = failure_spend(row)
            except ValueError as error:
                raise ConfigError(f"{files.failures}:{number}: no failed attempt of a run: {error}") from error
            tally.note(key, evidence, {}, ended_at=failed_at)


@dataclass
class CountingSink:
    """Counts what goes into another sink."""

    sink: RecordSink
    tally: SpendTally

    @property
    def run_hash(self) -> str:
        return self.sink.run_hash

    async def append(self, record: RolloutRecord) -> None:
        await self.sink.append(record)
        self.tally.note_record(record)

    async def append_failure(self, request: RunRequest, result: Failed) -> None:
        await self.sink.append_failure(request, result)
        self.tally.note(request.key, result.evidence, {}, ended_at=time.time())
