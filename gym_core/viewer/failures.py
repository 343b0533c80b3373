"""The broken attempts of a run, from its failures file."""

from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from gym_core.statistics.spend import failure_spend
from gym_core.types.rollout import EpisodeEvidence, RolloutKey
from gym_core.viewer.follow import FollowedFile, Line
from gym_core.viewer.types import BrokenAttempt

MAX_LISTED = 200
_MAX_REASON = 2000


class _Failure(msgspec.Struct):
    kind: str = ""
    reason: str = ""
    stage: str = ""


class _Line(msgspec.Struct):
    task_hash: str
    repeat: int
    attempt: int
    failure: _Failure
    task_index: int = 0
    failed_at: float = 0.0


_DECODER = msgspec.json.Decoder(_Line)


class FailureIndex:
    def __init__(self, path: Path) -> None:
        self._file = FollowedFile(path)
        self._clear()

    def _clear(self) -> None:
        self._all: list[BrokenAttempt] = []
        self._by_key: dict[tuple[str, int], list[BrokenAttempt]] = defaultdict(list)
        self.by_kind: Counter[str] = Counter()
        self.session_ids: list[str] = []
        self.spent: list[tuple[RolloutKey, EpisodeEvidence, float]] = []
        """What `SpendTally.note` takes of each, the response left out."""

    @property
    def unreadable(self) -> str:
        return self._file.unreadable

    def refresh(self) -> None:
        self._file.read_on(self._take, self._clear)

    def _take(self, read: Line) -> None:
        line = _DECODER.decode(read.content)
        key, evidence, failed_at = failure_spend(msgspec.json.decode(read.content))
        attempt = BrokenAttempt(
            task_hash=line.task_hash,
            repeat=line.repeat,
            attempt=line.attempt,
            task_index=line.task_index,
            failed_at=line.failed_at,
            kind=line.failure.kind[:100],
            reason=line.failure.reason[:_MAX_REASON],
            stage=line.failure.stage[:100],
        )
        self._all.append(attempt)
        self._by_key[line.task_hash, line.repeat].append(attempt)
        self.by_kind[attempt.kind] += 1
        self.spent.append((key, evidence.model_copy(update={"response": None}), failed_at))
        if evidence.capture:
            self.session_ids.append(evidence.capture.session_id)

    @property
    def total(self) -> int:
        return len(self._all)

    @property
    def damaged(self) -> int:
        return len(self._file.damaged_lines)

    @property
    def version(self) -> tuple[int, int]:
        return self._file.generation, len(self._all)

    def latest(self) -> list[BrokenAttempt]:
        """The newest first."""
        return self._all[: -MAX_LISTED - 1 : -1]

    def of(self, task_hash: str, repeat: int) -> list[BrokenAttempt]:
        return list(self._by_key.get((task_hash, repeat), []))
