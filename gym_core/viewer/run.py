"""One run as the viewer reads it: an index of its lines that grows with the file, and the numbers made of it.

Blocking; callers in an event loop use a thread. One lock a run: an index is built once, however many ask.
"""

import hashlib
import re
import threading
from collections import Counter
from pathlib import Path

import msgspec

from gym_core.capture.images import AssetStore
from gym_core.rollout.output import OutputFiles
from gym_core.statistics.report import aggregate
from gym_core.statistics.spend import JUDGE_USAGE, SpendTally
from gym_core.types.cost import Spend
from gym_core.types.flat_row import record_from_flat
from gym_core.types.metrics import MetricsReport
from gym_core.types.rollout import RolloutRecord
from gym_core.types.wire import JsonObject
from gym_core.viewer.facts import RowFacts, read_facts
from gym_core.viewer.failures import FailureIndex
from gym_core.viewer.follow import FollowedFile, Line
from gym_core.viewer.live import is_written, sessions_in_flight
from gym_core.viewer.manifest import ManifestFile
from gym_core.viewer.missing import MissingFiles
from gym_core.viewer.pictures import UrlOf, look_at
from gym_core.viewer.plain_file import readable_name
from gym_core.viewer.planned import PlannedIndex
from gym_core.viewer.types import BrokenAttempt, InFlight, RowsPage, RunCard, RunDetail, RunState

MAX_ROWS_A_PAGE = 2000
_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class NotInRun(ValueError):
    """A rollout, a call or a text that the run does not have."""


class ViewedRun:
    """`X.jsonl` and its siblings; `refresh` reads on."""

    def __init__(self, path: Path) -> None:
        self.files = OutputFiles(path.absolute())
        self.id = run_id(self.files.rollouts)
        self.name = readable_name(self.files.rollouts.stem)
        self.assets = AssetStore(self.files.assets)
        self._lock = threading.RLock()
        self._file = FollowedFile(self.files.rollouts)
        self._facts: list[RowFacts] = []
        self._by_id: dict[str, int] = {}
        self._copies: Counter[str] = Counter()
        """By the id of a rollout, how many more lines have it."""
        self._failures = FailureIndex(self.files.failures)
        self._planned = PlannedIndex(self.files.inputs)
        self._metrics: tuple[object, MetricsReport] | None = None
        self._manifest = ManifestFile(self.files.manifest)
        self._missing = MissingFiles(self.files)
        self._is_written = False
        self._shown: dict[str, bool] = {}

    # -- reading on -----------------------------------------------------------

    def refresh(self) -> str:
        """Reads what was added; a short text that changes when anything that is shown did.

        The first one reads the whole file: about a second for 300 MB.
        """
        with self._lock:
            self._file.read_on(self._take, self._forget)
            self._failures.refresh()
            self._planned.refresh()
            self._is_written = is_written(self.files.rollouts)
            self._manifest.refresh()
            self._missing.look(self._facts, self._file.generation)
            seen = (
                *(self._file.generation, len(self._facts), len(self._file.damaged_lines), self._file.torn_bytes > 0),
                *(self._failures.version, self._planned.version, self._is_written, self._manifest.version),
                [(s.rollout, s.last_call_at) for s in self._in_flight()],
                [*self._unreadable(), *self._missing.problems],
            )
            return hashlib.sha256(repr(seen).encode()).hexdigest()[:24]

    def _forget(self) -> None:
        self._facts, self._by_id, self._metrics = [], {}, None
        self._copies.clear()

    def _take(self, line: Line) -> None:
        facts = read_facts(line.content, line.offset)
        rollout = facts.row.id
        if rollout in self._by_id:  # two files put together, say
            self._copies[rollout] += 1
            own = f"{rollout}~{self._copies[rollout] + 1}"
            facts = msgspec.structs.replace(facts, row=facts.row.model_copy(update={"id": own}))
        self._by_id[facts.row.id] = len(self._facts)
        self._facts.append(facts)

    # -- what is shown --------------------------------------------------------

    def card(self) -> RunCard:
        with self._lock:
            metrics = self.metrics()
            return RunCard(
                id=self.id,
                name=self.name,
                folder=readable_name(str(self.files.rollouts.parent)),
                environment=metrics.environment,
                model=self._manifest.model,
                state=self._state(),
                started_at=self._manifest.started_at,
                updated_at=_modified(self.files.rollouts),
                reward=metrics.reward,
                coverage=metrics.coverage,
                input_tokens=sum(facts.row.input_tokens for facts in self._facts),
                output_tokens=sum(facts.row.output_tokens for facts in self._facts),
                cost=metrics.spend.cost if metrics.spend else None,
                currency=metrics.spend.currency if metrics.spend else None,
                problems=self._problems(),
            )

    def detail(self) -> RunDetail:
        with self._lock:
            manifest = self._manifest.value
            attempts = self._failures
            return RunDetail(
                card=self.card(),
                generation=self._file.generation,
                rows=len(self._facts),
                metrics=self.metrics(),
                manifest={k: v for k, v in manifest.items() if k != "identity"} if manifest else None,
                identity=self._manifest.identity,
                attempts=attempts.latest(),
                attempts_total=attempts.total,
                attempts_by_kind=dict(attempts.by_kind),
                in_flight=self._in_flight(),
            )

    def metrics(self) -> MetricsReport:
        with self._lock:
            key = (
                *(self._file.generation, len(self._facts)),
                *(self._planned.version, self._failures.version, self._manifest.version),
            )
            if self._metrics is None or self._metrics[0] != key:
                environment = self._facts[-1].environment if self._facts else ""
                expected = max(self._planned.total, len(self._facts))
                outcomes = [facts.outcome for facts in self._facts]
                report = aggregate(
                    outcomes, environment=environment, expected=expected, planned=self._planned.rollouts()
                )
                self._metrics = (key, report.model_copy(update={"spend": self._spend()}))
            return self._metrics[1]

    def _spend(self) -> Spend:
        tally = SpendTally(self._manifest.prices)
        for facts in self._facts:
            usage = {JUDGE_USAGE: facts.judge_usage}
            tally.note(facts.key, facts.evidence, usage, ended_at=facts.row.finished_at)
        for key, evidence, failed_at in self._failures.spent:
            tally.note(key, evidence, {}, ended_at=failed_at)
        return tally.total()

    def rows(self, start: int, url_of: UrlOf, limit: int = MAX_ROWS_A_PAGE) -> RowsPage:
        with self._lock:
            found = self._facts[start : start + limit]
            hashes = dict.fromkeys(facts.row.picture for facts in found if facts.row.picture)
            return RowsPage(
                generation=self._file.generation,
                start=start,
                total=len(self._facts),
                rows=[facts.row for facts in found],
                pictures={sha256: url_of(sha256) for sha256 in hashes if self._is_shown(sha256)},
            )

    def _is_shown(self, sha256: str) -> bool:
        """Whether a browser can show the picture; each is looked at once."""
        if sha256 not in self._shown:
            self._shown[sha256] = not look_at(self.assets, sha256).problem
        return self._shown[sha256]

    def rollout_ids(self) -> list[str]:
        with self._lock:
            return [facts.row.id for facts in self._facts]

    # -- one rollout ----------------------------------------------------------

    def facts(self, rollout: str) -> RowFacts:
        """Raises NotInRun."""
        with self._lock:
            place = self._by_id.get(rollout)
            if place is None:
                raise NotInRun(f"no rollout {rollout!r} in {self.name}")
            return self._facts[place]

    def record(self, facts: RowFacts) -> RolloutRecord:
        """The whole line. Raises ValueError, OSError."""
        row: JsonObject = msgspec.json.decode(self._file.read_at(facts.offset, facts.length))
        del row["_gym_crc32"]
        return record_from_flat(row)

    def neighbours(self, rollout: str) -> tuple[str | None, str | None]:
        """Ids of the rollouts before and after it in the file."""
        with self._lock:
            place = self._by_id[rollout]
            before = self._facts[place - 1].row.id if place else None
            after = self._facts[place + 1].row.id if place + 1 < len(self._facts) else None
            return before, after

    def attempts_of(self, task_hash: str, repeat: int) -> list[BrokenAttempt]:
        with self._lock:
            return self._failures.of(task_hash, repeat)

    def in_flight(self, rollout: str) -> InFlight:
        """Raises NotInRun."""
        with self._lock:
            found = next((session for session in self._in_flight() if session.rollout == rollout), None)
        if found is None:
            raise NotInRun(f"no rollout {rollout!r} in {self.name}")
        return found

    # -- inside ---------------------------------------------------------------

    def _in_flight(self) -> list[InFlight]:
        if not self._is_written:
            return []
        ended = [facts.session_id for facts in self._facts] + self._failures.session_ids
        return sessions_in_flight(self.files.captures, ended, since=self._manifest.started_at or 0.0)

    def _state(self) -> RunState:
        if self._is_written:
            return RunState.RUNNING
        if not self._facts:
            return RunState.EMPTY
        return RunState.PARTIAL if self._planned.total > len(self._facts) else RunState.FINISHED

    def _unreadable(self) -> list[str]:
        files = self.files
        reasons = {
            files.rollouts: self._file.unreadable,
            files.failures: self._failures.unreadable,
            files.inputs: self._planned.unreadable,
        }
        return [f"{readable_name(path.name)} cannot be read: {reason}" for path, reason in reasons.items() if reason]

    def _problems(self) -> list[str]:
        found = self._unreadable()
        if damaged := self._file.damaged_lines:
            some = ", ".join(map(str, damaged[:5])) + ("…" if len(damaged) > 5 else "")
            found.append(f"{len(damaged)} of its lines are damaged or no rollouts, and are not shown (line {some})")
        if self._file.torn_bytes and not self._is_written:
            found.append(f"the last line is cut off ({self._file.torn_bytes:,} bytes); its rollout is not shown")
        if self._manifest.value is None:
            found.append(
                f"{readable_name(self.files.manifest.name)} is not there or not readable: what ran is not known"
            )
        if self._failures.damaged:
            found.append(f"{readable_name(self.files.failures.name)}: {self._failures.damaged} damaged lines")
        return [*found, *self._missing.problems]


def run_id(path: Path) -> str:
    """Of the run whose output file is there: its name, and enough of a hash to tell it from others of that name."""
    name = _NOT_NAME.sub("-", path.stem).strip(".-")[:60] or "run"
    return f"{name}-{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
