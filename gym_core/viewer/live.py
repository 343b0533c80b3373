"""Whether somebody still writes a run's file, and which sessions have calls on disk but no finished rollout."""

import time
from collections.abc import Iterable
from pathlib import Path

from gym_core.capture.recorder import CAPTURE_SUFFIX
from gym_core.types.ids import EpisodeId
from gym_core.viewer.types import InFlight

_LOCKS = Path("/proc/locks")
_RECENT_S = 90.0
"""Without a list of locks, a file that was written so recently counts as one that is still written."""
_LONGEST_SILENCE_S = 1800.0
"""A session without a call for longer was left by a run that was killed."""


def is_written(path: Path) -> bool:
    """Whether a run holds the file's lock (`JsonlSink` takes one). Touches nothing: asking by taking a lock of one's
    own could make a starting run believe that another one is there."""
    try:
        seen = path.stat()
    except OSError:
        return False
    try:
        held = _LOCKS.read_text()
    except OSError:
        return time.time() - seen.st_mtime < _RECENT_S
    # The device is not compared: an overlay's files are listed under the device below it.
    return any(
        fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(seen.st_ino)
        for fields in map(str.split, held.splitlines())
        if len(fields) > 5 and fields[1] != "->"
    )


def sessions_in_flight(captures: Path, known: Iterable[str | None], *, since: float) -> list[InFlight]:
    """Sessions of the folder that are in nobody's row, the one that called last first.

    `known` are the ids of sessions that ended; files that were not written after `since` are of an earlier run.
    """
    ended, now, found = set(known), time.time(), []
    for path in captures.glob(f"*{CAPTURE_SUFFIX}"):
        session = path.name.removesuffix(CAPTURE_SUFFIX)
        try:
            seen = path.stat()
            episode = EpisodeId.parse(session.rpartition("-")[0])
        except (OSError, ValueError):
            continue
        if session in ended or seen.st_mtime < max(since, now - _LONGEST_SILENCE_S):
            continue
        found.append(
            InFlight(
                rollout=episode.rollout_id,
                attempt=episode.attempt,
                last_call_at=seen.st_mtime,
                capture_bytes=seen.st_size,
            )
        )
    return sorted(found, key=lambda session: -session.last_call_at)
