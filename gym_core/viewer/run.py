"""One run as the viewer reads it: an index of its lines that grows with the file, and the numbers made of it.

Blocking; callers in an event loop use a thread. One lock a run: an index is built once, however many ask.
"""

import hashlib
import re
import threading
from pathlib import Path

import msgspec

from gym_core.capture.images import AssetStore
from gym_core.rollout.output import OutputFiles
from gym_core.statistics.report import aggregate
from gym_core.statistics.spend import JUDGE_USAGE, SpendTally
from gym_core.types.cost import RunPrices, Spend
from gym_core.types.flat_row import record_from_flat
from gym_core.types.metrics import MetricsReport
from gym_core.types.rollout import RolloutRecord
from gym_core.types.wire import JsonObject
from gym_core.viewer.facts import RowFacts, read_facts
from gym_core.viewer.failures import FailureIndex
from gym_core.viewer.follow import FollowedFile
from gym_core.viewer.live import is_written, sessions_in_flight
from gym_core.viewer.pictures import UrlOf, look_at
from gym_core.viewer.planned import PlannedIndex
from gym_core.viewer.types import BrokenAttempt, InFlight, RowsPage, RunCard, RunDetail, RunState

MAX_ROWS_A_PAGE = 2000
MAX_MANIFEST_BYTES = 4 << 20
_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class NotInRun(ValueError):
    """A rollout, a call or a text that the run does not have."""


class ViewedRun:
    """`X.jsonl` and its siblings; `refresh` reads on."""

    def __init__(self, path: Path) -> None:
        self.files = OutputFiles(path.absolute())
        self.id = run_id(self.files.rollouts)
        self.assets = AssetStore(self.files.assets)
        self._lock = threading.RLock()
        self._file = FollowedFile(self.files.rollouts)
        self._generation = 0
        self._facts: list[RowFacts] = []
        self._by_id: dict[str, int] = {}
        self._failures = FailureIndex(self.files.failures)
        self._planned = PlannedIndex(self.files.inputs)
        self._metrics: tuple[object, MetricsReport] | None = None
        self._manifest: tuple[object, JsonObject | None] = (None, None)
        self._is_written = False
        self._shown: dict[str, bool] = {}

    # -- reading on -----------------------------------------------------------

    def refresh(self) -> str:
        """Reads what was added; a short text that changes when anything that is shown did. Raises OSError.

        The first one reads the whole file: about a second for 300 MB.
        """
        with self._lock:
            for line in self._file.news():
                self._drop_replaced()
                try:
                    self._add(read_facts(line.content, line.offset))
                except (ValueError, RecursionError):  # pydantic's and msgspec's are ValueErrors
                    self._file.note_damage()
            self._drop_replaced()
            self._failures.refresh()
            self._planned.refresh()
            self._is_written = is_written(self.files.rollouts)
            manifest = _stamp(self.files.manifest)
            if self._manifest[0] != manifest:
                self._manifest = (manifest, _read_manifest(self.files.manifest))
            seen = (
                *(self._generation, len(self._facts), len(self._file.damaged_lines), self._file.torn_bytes > 0),
                *(self._failures.version, self._planned.version, self._is_written, manifest),
                [(s.rollout, s.last_call_at) for s in self._in_flight()],
            )
            return hashlib.sha256(repr(seen).encode()).hexdigest()[:24]

    def _drop_replaced(self) -> None:
        if self._generation != self._file.generation:
            self._generation = self._file.generation
            self._facts, self._by_id, self._metrics = [], {}, None

    def _add(self, facts: RowFacts) -> None:
        rollout = facts.row.id
        if rollout in self._by_id:  # two files put together, say
            copy = 2 + sum(1 for known in self._by_id if known.startswith(f"{rollout}~"))
            facts = msgspec.structs.replace(facts, row=facts.row.model_copy(update={"id": f"{rollout}~{copy}"}))
        self._by_id[facts.row.id] = len(self._facts)
        self._facts.append(facts)

    # -- what is shown --------------------------------------------------------

    def card(self) -> RunCard:
        with self._lock:
            metrics, manifest = self.metrics(), self._manifest[1] or {}
            model = _text(_at(manifest, "endpoint", "model"))
            return RunCard(
                id=self.id,
                name=self.files.rollouts.stem,
                folder=str(self.files.rollouts.parent),
                environment=metrics.environment,
                model=model,
                state=self._state(),
                started_at=_number(manifest.get("started_at")),
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
            manifest = self._manifest[1]
            attempts = self._failures
            return RunDetail(
                card=self.card(),
                generation=self._generation,
                rows=len(self._facts),
                metrics=self.metrics(),
                manifest={k: v for k, v in manifest.items() if k != "identity"} if manifest else None,
                identity=_object(manifest.get("identity")) if manifest else None,
                attempts=attempts.latest(),
                attempts_total=attempts.total,
                attempts_by_kind=dict(attempts.by_kind),
                in_flight=self._in_flight(),
            )

    def metrics(self) -> MetricsReport:
        with self._lock:
            key = (self._generation, len(self._facts), self._planned.version, self._failures.version, self._manifest[0])
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
        tally = SpendTally(_prices((self._manifest[1] or {}).get("prices")))
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
                generation=self._generation,
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
                raise NotInRun(f"no rollout {rollout!r} in {self.files.rollouts.name}")
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
            raise NotInRun(f"no rollout {rollout!r} in {self.files.rollouts.name}")
        return found

    # -- inside ---------------------------------------------------------------

    def _in_flight(self) -> list[InFlight]:
        if not self._is_written:
            return []
        ended = [facts.session_id for facts in self._facts] + self._failures.session_ids
        started = _number((self._manifest[1] or {}).get("started_at")) or 0.0
        return sessions_in_flight(self.files.captures, ended, since=started)

    def _state(self) -> RunState:
        if self._is_written:
            return RunState.RUNNING
        if not self._facts:
            return RunState.EMPTY
        return RunState.PARTIAL if self._planned.total > len(self._facts) else RunState.FINISHED

    def _problems(self) -> list[str]:
        found = []
        if damaged := self._file.damaged_lines:
            some = ", ".join(map(str, damaged[:5])) + ("…" if len(damaged) > 5 else "")
            found.append(f"{len(damaged)} of its lines are damaged or no rollouts, and are not shown (line {some})")
        if self._file.torn_bytes and not self._is_written:
            found.append(f"the last line is cut off ({self._file.torn_bytes:,} bytes); its rollout is not shown")
        if self._manifest[1] is None:
            found.append(f"{self.files.manifest.name} is not there or not readable: what ran is not known")
        if self._failures.damaged:
            found.append(f"{self.files.failures.name}: {self._failures.damaged} damaged lines")
        if self._facts and not self.files.assets.is_dir() and any(facts.row.images for facts in self._facts):
            found.append(f"{self.files.assets.name}/ is not there: no picture can be shown")
        return found


def run_id(path: Path) -> str:
    """Of the run whose output file is there: its name, and enough of a hash to tell it from others of that name."""
    name = _NOT_NAME.sub("-", path.stem).strip(".-")[:60] or "run"
    return f"{name}-{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def _read_manifest(path: Path) -> JsonObject | None:
    """None when it is not there, too large, or no JSON object. Not checked further: it is only shown."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_MANIFEST_BYTES + 1)
        return _object(msgspec.json.decode(content)) if len(content) <= MAX_MANIFEST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


def _prices(value: object) -> RunPrices:
    """Those that are known: none where the manifest holds something else."""
    try:
        return RunPrices.model_validate(value or {})
    except ValueError:
        return RunPrices()


def _object(value: object) -> JsonObject | None:
    return value if isinstance(value, dict) else None


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_mtime_ns, seen.st_size


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
