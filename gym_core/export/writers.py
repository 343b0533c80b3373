"""The files of an export: one format each, written a rollout at a time, there whole or not at all."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec

from gym_core.capture.images import AssetStore
from gym_core.capture.recorder import capture_path, read_captured
from gym_core.export.formats.nemo_rl import nemo_rl_result
from gym_core.export.formats.prime_rl import prime_rl_sample
from gym_core.export.formats.table import ParquetTable
from gym_core.export.formats.trl import trl_rollout
from gym_core.export.formats.verifiers import trajectory_steps
from gym_core.export.formats.verl import agent_loop_output
from gym_core.export.pictures import read_picture
from gym_core.export.turns import trainable_reward
from gym_core.types.flat_row import flat_from_record
from gym_core.types.model_call import ModelCall
from gym_core.types.rollout import RolloutRecord
from gym_core.types.sample import TrainingSample
from gym_core.types.wire import JsonObject


class ExportFormat(StrEnum):
    NEMO_RL = "nemo_rl"
    VERL = "verl"
    PRIME_RL = "prime_rl"
    VERIFIERS = "verifiers"
    TRL = "trl"
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(frozen=True)
class PlayedRollout:
    """What a format may need of one rollout."""

    record: RolloutRecord
    samples: Sequence[TrainingSample]
    assets: AssetStore
    """Where its pictures lie, for formats that name them by URL."""
    captures_dir: Path
    model: str = ""
    """The endpoint's name of it; "" when nobody looked."""

    def calls(self) -> dict[str, ModelCall]:
        """The conversations of the samples' calls, without tokens, by call id. Raises OSError, ValueError."""
        capture = self.record.evidence.capture
        assert capture is not None  # samples come of a capture
        wanted = {span.call_id for sample in self.samples for span in sample.calls}
        found = read_captured(capture_path(self.captures_dir, capture.session_id))
        return {
            call_id: replace(call, tokens=None).as_model_call()
            for call in found
            if (call_id := call.facts.get("call_id")) in wanted
        }


def nemo_rl_rows(rollout: PlayedRollout) -> Iterator[JsonObject]:
    """One row. Pictures are data URLs where the samples hold them, else `file://`. Raises NoSequence."""
    inline = {image.sha256: image.data_url for sample in rollout.samples for image in sample.images if image.data_url}

    def url(sha256: str) -> str:
        if sha256 in inline:
            return inline[sha256]
        if read_picture(rollout.assets, sha256) is None:
            raise LookupError(sha256)
        return rollout.assets.path(sha256).resolve().as_uri()

    yield nemo_rl_result(flat_from_record(rollout.record), rollout.samples, url)


def verl_rows(rollout: PlayedRollout) -> Iterator[JsonObject]:
    timing = rollout.record.evidence.timing
    yield from (dict(agent_loop_output(sample, timing)) for sample in rollout.samples)


def prime_rl_rows(rollout: PlayedRollout) -> Iterator[JsonObject]:
    for sample in rollout.samples:
        images = [image.model_dump(exclude_none=True) for image in sample.images]
        yield {**prime_rl_sample(sample), **_about(sample), "_gym_images": images}


def verifiers_rows(rollout: PlayedRollout) -> Iterator[JsonObject]:
    calls = rollout.calls()
    for sample in rollout.samples:
        yield {
            "example_id": sample.task_index,
            "reward": trainable_reward(sample) or 0.0,  # a rollout's reward is a number there
            "is_truncated": sample.is_truncated,
            "trajectory": trajectory_steps(sample, calls, model=rollout.model),
            **_about(sample),
        }


def trl_rows(rollout: PlayedRollout) -> Iterator[JsonObject]:
    yield from (dict(trl_rollout(sample)) for sample in rollout.samples)


def sample_rows(rollout: PlayedRollout) -> Iterator[JsonObject]:
    yield from (sample.model_dump(mode="json") for sample in rollout.samples)


def _about(sample: TrainingSample) -> JsonObject:
    return {
        "_gym_sample_id": sample.sample_id,
        "_gym_advantage_group": sample.advantage_group,
        "_gym_mask_reason": sample.mask_reason,
    }


_ROWS: Mapping[ExportFormat, Callable[[PlayedRollout], Iterator[JsonObject]]] = {
    ExportFormat.NEMO_RL: nemo_rl_rows,
    ExportFormat.VERL: verl_rows,
    ExportFormat.PRIME_RL: prime_rl_rows,
    ExportFormat.VERIFIERS: verifiers_rows,
    ExportFormat.TRL: trl_rows,
    ExportFormat.JSONL: sample_rows,
}


class ExportWriter(ABC):
    """Writes to a file of another name until `publish` puts it in place; what is closed before that leaves nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._close()
        finally:
            self._partial.unlink(missing_ok=True)

    @abstractmethod
    def append(self, rollout: PlayedRollout) -> int:
        """Write a rollout and return how many rows that took. Raises OSError, and NoSequence from NeMo RL's format."""

    @abstractmethod
    def _close(self) -> None:
        """May be called twice."""

    def publish(self) -> None:
        self._close()
        self._partial.replace(self._path)


class JsonLinesWriter(ExportWriter):
    """Any format but Parquet: one JSON object a line."""

    def __init__(self, path: Path, kind: ExportFormat) -> None:
        super().__init__(path)
        self._rows = _ROWS[kind]
        self._file = self._partial.open("wb")

    def append(self, rollout: PlayedRollout) -> int:
        count = 0
        for row in self._rows(rollout):
            self._file.write(msgspec.json.encode(row) + b"\n")
            count += 1
        return count

    def _close(self) -> None:
        self._file.close()


class ParquetWriter(ExportWriter):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._table = ParquetTable(self._partial)

    def append(self, rollout: PlayedRollout) -> int:
        for sample in rollout.samples:
            self._table.append(sample)
        return len(rollout.samples)

    def _close(self) -> None:
        self._table.close()


def open_writer(path: Path, kind: ExportFormat) -> ExportWriter:
    """Raises OSError."""
    return ParquetWriter(path) if kind is ExportFormat.PARQUET else JsonLinesWriter(path, kind)
