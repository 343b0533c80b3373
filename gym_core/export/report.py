"""What an export is: the file beside it, and the numbers that the command prints."""

import time
from typing import Literal

from pydantic import Field

from gym_core.types.model_call import EndpointReport
from gym_core.types.sample import DriftReason, TrainingSample
from gym_core.types.wire import JsonObject, Wire

MOST_SAMPLINGS = 16
"""Different ones that are listed; a run has one."""


class ExportedRun(Wire):
    """Paths are relative to the folder of the export."""

    path: str
    run_hash: str | None
    """None when the run's manifest is not there."""
    images_dir: str
    """Where a picture of a sample of this run lies: the file named by its SHA-256."""
    captures_dir: str
    endpoint: EndpointReport | None = None
    """What the policy's endpoint was seen to do."""


class ExportReport(Wire):
    """`OUTPUT.json`. Counts are over everything that was read, masked samples included, unless said."""

    schema_version: Literal[1] = 1
    created_at: float = Field(default_factory=time.time)
    format: str
    branches: str
    images: str
    includes_masked: bool
    runs: list[ExportedRun] = []
    rollouts: int = 0
    rows: int = 0
    """Written."""
    samples: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    """Of samples that are not masked."""
    masked: dict[str, int] = {}
    """Samples by mask reason."""
    without_samples: dict[str, int] = {}
    """Rollouts by why they have none."""
    left_out: dict[str, int] = {}
    """Rollouts that this format has no row for, by why."""
    drifts: dict[DriftReason, int] = {}
    drifted_tokens: int = 0
    logprobs_modes: dict[str, int] = {}
    """Samples by mode: a trainer divides its logits by the temperature only where it is "processed"."""
    warnings: list[str] = []
    """What a reader has to know before they train on it."""
    samplings: list[JsonObject] = []
    """Different ones that were sent, at most 16."""


class Tally:
    """Counts an export as it goes."""

    def __init__(self) -> None:
        self.rollouts = self.rows = self.samples = self.tokens = self.trained_tokens = self.drifted_tokens = 0
        self.masked: dict[str, int] = {}
        self.without_samples: dict[str, int] = {}
        self.left_out: dict[str, int] = {}
        self.drifts: dict[DriftReason, int] = {}
        self.logprobs_modes: dict[str, int] = {}
        self.samplings: list[JsonObject] = []
        self.warnings: list[str] = []

    def note(self, sample: TrainingSample) -> None:
        self.samples += 1
        self.tokens += len(sample.token_ids)
        self.logprobs_modes[sample.logprobs_mode] = self.logprobs_modes.get(sample.logprobs_mode, 0) + 1
        if sample.mask_reason is not None:
            self.masked[sample.mask_reason] = self.masked.get(sample.mask_reason, 0) + 1
        else:
            self.trained_tokens += sum(sample.loss_mask)
        if sample.drift is not None:
            self.drifts[sample.drift.reason] = self.drifts.get(sample.drift.reason, 0) + 1
            self.drifted_tokens += sample.drift.tokens
        if sample.sampling not in self.samplings and len(self.samplings) < MOST_SAMPLINGS:
            self.samplings.append(sample.sampling)
