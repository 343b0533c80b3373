"""Plays episodes of one environment, and counts the token sequences that each left: what a collector calls."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path

from gym_core.capture.recorder import capture_path, read_captured
from gym_core.capture.sequences import join
from gym_core.episode import Episode, EpisodeServers, EpisodeStorage
from gym_core.launch.activity import Playing
from gym_core.types.rollout import EpisodeEvidence, EpisodeResult, RunRequest
from gym_core.types.sample import SequenceSummary

log = logging.getLogger(__name__)

PendingTasks = set["asyncio.Task[None]"]
"""Clean-up that goes on when an episode was cancelled; its owner waits for it."""


@dataclass(frozen=True)
class EpisodePlayer:
    servers: EpisodeServers
    storage: EpisodeStorage
    pending: PendingTasks
    playing: Playing = field(default_factory=Playing)
    """Where each episode can be seen while it is played."""

    async def __call__(self, request: RunRequest, attempt: int) -> EpisodeResult:
        episode = Episode(request, attempt, self.servers, self.storage, self.pending)
        with self.playing.shown(episode):
            return await episode.run()


@dataclass(frozen=True)
class SequencingPlayer:
    """The same, with the sequences of each episode in its evidence."""

    play: EpisodePlayer

    async def __call__(self, request: RunRequest, attempt: int) -> EpisodeResult:
        result = await self.play(request, attempt)
        summary = await asyncio.to_thread(sequence_summary, result.evidence, self.play.storage.captures_dir)
        if summary is None:
            return result
        return result.model_copy(update={"evidence": result.evidence.model_copy(update={"sequences": summary})})


def sequence_summary(evidence: EpisodeEvidence, captures_dir: Path) -> SequenceSummary | None:
    """None when no call was answered, or when there is no capture to be read. Blocking, linear in tokens."""
    capture = evidence.capture
    if capture is None or not capture.calls:
        return None
    path = capture_path(captures_dir, capture.session_id)
    answer = evidence.response.final_text if evidence.response else None
    try:
        found = join(read_captured(path), final_answer=answer)
    except (OSError, ValueError) as error:
        log.warning("capture cannot be read", extra={"file": str(path), "reason": str(error)[:200]})
        return None
    return found.summary if found.summary.calls or found.summary.incomplete_calls else None
