"""Which recorded session belongs to a rollout, out of a saved run."""

import re
from collections.abc import Sequence
from pathlib import Path

from gym_core.capture.recorder import capture_path, read_captured
from gym_core.errors import ConfigError
from gym_core.rollout.saved import SavedRun
from gym_core.types.model_call import EndpointReport
from model_servers.replay_model.recording import Recording


class NoRecording(Exception):
    """Nothing is known of a rollout's calls. The message says why, and what to do."""


class Library:
    """A saved run's sessions by rollout. Reads the whole output file once; captures when they are asked for."""

    def __init__(self, run: Path, ignored: Sequence[re.Pattern[str]]) -> None:
        """Blocking. Raises ConfigError for what is no run's output file, or has no rollouts."""
        self._saved = SavedRun(run.expanduser())
        self._ignored = ignored
        self._sessions: dict[str, str] = {}
        count = 0
        for record in self._saved.outlines():
            count += 1
            if record.evidence.capture is not None:
                self._sessions[record.evidence.episode_id.rollout_id] = record.evidence.capture.session_id
        if not count:
            raise ConfigError(f"replay_model.run: {run}: no finished rollouts")

    def recording(self, rollout_id: str) -> Recording:
        """A new one, of which nothing was given out. Blocking. Raises NoRecording."""
        session = self._sessions.get(rollout_id)
        if session is None:
            raise NoRecording(f"the saved run has no rollout {rollout_id!r} whose model calls were recorded")
        path = capture_path(self._saved.files.captures, session)
        try:
            return Recording(read_captured(path), self._ignored)
        except FileNotFoundError:
            raise NoRecording(f"{path} is not there: copy the captures folder along with the rollouts") from None
        except (OSError, ValueError) as error:
            raise NoRecording(f"{path} cannot be read: {str(error)[:300]}") from error

    @property
    def endpoint(self) -> EndpointReport | None:
        """What the saved run saw of its policy's endpoint."""
        return self._saved.manifest.endpoint if self._saved.manifest else None
