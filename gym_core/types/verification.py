"""A verification: the reward, or the mask with its reason."""

from typing import Self

from pydantic import Field, FiniteFloat, model_validator

from gym_core.errors import FailureKind, Outcome, outcome_of
from gym_core.types.wire import JsonObject, Wire


class Failure(Wire):
    kind: FailureKind
    reason: str = Field(max_length=2000)
    """For people; no secrets."""
    stage: str = ""
    """Step of the episode: "seed", "open", "respond", "verify", ..."""


class Verification(Wire):
    """What became of a submission. Either a reward in [0, 1], or masked: never both, never neither."""

    reward: float | None = Field(ge=0.0, le=1.0)
    """None exactly when the sample is masked."""
    reward_components: dict[str, float] = {}
    failure: Failure | None = None
    """Why the reward is zero or not a measurement; None for an ordinary grade."""
    details: JsonObject = {}
    """The environment's own columns: extracted answer, verdict, raw judge reply."""
    measures: dict[str, FiniteFloat] = {}
    """The numbers among them whose means a run's metrics give, as `mean/NAME`; one that is not here was not measured.
    `ResourcesServer.measured_columns` fills it."""

    @property
    def is_masked(self) -> bool:
        return self.reward is None

    @model_validator(mode="after")
    def _reward_agrees_with_failure(self) -> Self:
        if self.failure is None and self.reward is None:
            raise ValueError("a masked verification needs its failure")
        if self.failure is not None:
            masks = outcome_of(self.failure.kind) is not Outcome.SCORE_ZERO
            if masks != self.is_masked:
                raise ValueError(f"failure {self.failure.kind!r} does not go with reward {self.reward!r}")
        return self

    @classmethod
    def failed(cls, failure: Failure, details: JsonObject | None = None) -> Self:
        """A verification for a failure, scored or masked as the failure table says."""
        reward = 0.0 if outcome_of(failure.kind) is Outcome.SCORE_ZERO else None
        return cls(reward=reward, failure=failure, details=details or {})
