"""A played leg read back: each session's record, captured calls and samples, and which words of the engine are whose.

The engine knows no sessions. A call is found in its log by what it is said to have been: prompt, sampled tokens and
log-probabilities, all equal, each entry of the log used once.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gym_core.capture.images import AssetStore
from gym_core.capture.recorder import capture_path
from gym_core.export.samples import read_session
from gym_core.rollout.saved import SavedRun
from gym_core.types.model_call import CallOutcome, ModelCall
from gym_core.types.rollout import RolloutRecord
from gym_core.types.sample import SequenceSummary, TrainingSample
from tests.fakes.captured import read_calls
from tests.live.token_exact.engine_log import Fault, Seen, read_log
from tests.live.token_exact.play import LOG_NAME, OUTPUT


@dataclass(frozen=True)
class Session:
    record: RolloutRecord
    calls: dict[str, ModelCall]
    """In the order they ended."""
    samples: Sequence[TrainingSample]
    """Of all branches, masked ones included."""
    summary: SequenceSummary | None
    captures: Path
    """The file of its calls."""

    @property
    def name(self) -> str:
        return f"{self.record.task.id.task_id}:{self.record.evidence.episode_id}"

    def answered(self) -> list[ModelCall]:
        return [call for call in self.calls.values() if call.outcome is CallOutcome.ANSWERED]

    def complete(self) -> list[ModelCall]:
        return [call for call in self.answered() if call.gaps == []]


@dataclass(frozen=True)
class Leg:
    name: str
    sessions: Sequence[Session]
    assets: AssetStore
    log: "MatchedLog"


class MatchedLog:
    """The engine's log with a name for each entry that is some call's."""

    def __init__(self, log: Sequence[Seen], calls: Iterator[ModelCall]) -> None:
        self.entries = log
        self.of_call: dict[str, Seen] = {}
        self.unmatched_calls: list[str] = []
        free: dict[bytes, list[Seen]] = defaultdict(list)
        for seen in log:
            if seen.is_whole:
                free[_key(seen.prompt_ids, seen.sampled_ids, seen.logprobs)].append(seen)
        for call in calls:
            found = free[_key_of(call)] or free[_key_of_lost(call, log)]
            if found:
                self.of_call[call.call_id] = found.pop()
            else:
                self.unmatched_calls.append(call.call_id)
        self.unclaimed = [seen for entries in free.values() for seen in entries]
        """Whole answers that no call holds."""

    def count(self, *faults: Fault) -> int:
        return sum(seen.fault in faults for seen in self.entries)


def _key(prompt: Sequence[int], sampled: Sequence[int], logprobs: Sequence[float]) -> bytes:
    arrays = np.array(prompt, "<i4"), np.array(sampled, "<i4"), np.array(logprobs, "<f4")
    return b"|".join(array.tobytes() for array in arrays)


def _key_of(call: ModelCall) -> bytes:
    return _key(call.prompt_token_ids or (), call.token_ids or (), call.logprobs or ())


def _key_of_lost(call: ModelCall, log: Sequence[Seen]) -> bytes:
    """Of the entry that lost an id on the way to this call; as one that is nowhere when there is none."""
    for seen in log:
        lost = seen.fault is Fault.LOST_IDS and seen.is_whole and call.gaps
        if lost and seen.prompt_ids == call.prompt_token_ids and len(seen.logprobs) == len(call.logprobs or ()):
            return _key(seen.prompt_ids, seen.sampled_ids, seen.logprobs)
    return b""


def read_leg(name: str, folder: Path) -> Leg:
    """What `play` left. Raises what reading raises: a file that cannot be read is no finding but the end."""
    run = SavedRun(folder / OUTPUT)
    endpoint = run.manifest.endpoint if run.manifest else None
    sessions = []
    for record in run.records():
        assert record.evidence.capture is not None
        path = capture_path(run.files.captures, record.evidence.capture.session_id)
        reading = read_session(record, run.files.captures, run.assets, endpoint=endpoint, branches="all")
        calls = {call.call_id: call for call in read_calls(path)}
        sessions.append(Session(record, calls, reading.samples, reading.summary, path))
    answered = (call for session in sessions for call in session.answered())
    return Leg(name, sessions, run.assets, MatchedLog(read_log(folder / LOG_NAME), answered))
