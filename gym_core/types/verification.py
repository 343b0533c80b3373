"""A verification: the reward, or the mask with its reason; and what a trainer's reward has beside it."""

import math
from typing import Annotated, Self

from pydantic import Field, FiniteFloat, model_validator

from gym_core.errors import FailureKind, Outcome, outcome_of
from gym_core.types.wire import JsonObject, Wire

ACCURACY = "accuracy"
"""The one component of a reward that names none."""
TOOL_USE = "tool_use"
"""The shaping term of an environment that pays for tool calls by a rule of its own."""
MAX_TERMS = 16
MAX_TERM = 10.0
_SUM_TOLERANCE = 1e-9

_TermName = Annotated[str, Field(min_length=1, max_length=100)]
_Term = Annotated[float, Field(ge=-MAX_TERM, le=MAX_TERM, allow_inf_nan=False)]
ShapingTerms = Annotated[dict[_TermName, _Term], Field(max_length=MAX_TERMS)]


class Failure(Wire):
    kind: FailureKind
    reason: str = Field(max_length=2000)
    """For people; no secrets."""
    stage: str = ""
    """Step of the episode: "seed", "open", "respond", "verify", ..."""


class Verification(Wire):
    """What became of a submission. Either a reward in [0, 1], or masked: never both, never neither."""

    reward: float | None = Field(ge=0.0, le=1.0)
    """The score that is published: every metric is of it alone. None exactly when the sample is masked."""
    reward_components: dict[str, float] = {}
    shaping: ShapingTerms = {}
    """Name to number: what a trainer's reward has beside `reward`, such as a bonus for tool use. No metric counts it.
    Empty when masked. No name of `reward_components`, nor `ACCURACY`."""
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

    @property
    def trainer_components(self) -> dict[str, float]:
        """What a trainer's reward is the sum of: the components, where they sum up to `reward`, else `reward` as one
        of the name `ACCURACY`; and the shaping. Empty when masked."""
        if self.reward is None:
            return {}
        total = math.fsum(self.reward_components.values())
        adds_up = bool(self.reward_components) and math.isclose(total, self.reward, abs_tol=_SUM_TOLERANCE)
        return (dict(self.reward_components) if adds_up else {ACCURACY: self.reward}) | self.shaping

    @property
    def trainer_reward(self) -> float | None:
        """`reward` and the shaping; None when masked."""
        return None if self.reward is None else math.fsum((self.reward, *self.shaping.values()))

    @model_validator(mode="after")
    def _reward_agrees_with_failure(self) -> Self:
        if self.failure is None and self.reward is None:
            raise ValueError("a masked verification needs its failure")
        if self.failure is not None:
            masks = outcome_of(self.failure.kind) is not Outcome.SCORE_ZERO
            if masks != self.is_masked:
                raise ValueError(f"failure {self.failure.kind!r} does not go with reward {self.reward!r}")
        return self

    @model_validator(mode="after")
    def _shaping_goes_with_a_reward(self) -> Self:
        if self.is_masked and self.shaping:
            raise ValueError("a masked verification has no shaping")
        if taken := sorted(self.shaping.keys() & {ACCURACY, *self.reward_components}):
            raise ValueError(f"shaping has the names of reward components: {taken}")
        return self

    @classmethod
    def failed(cls, failure: Failure, details: JsonObject | None = None) -> Self:
        """A verification for a failure, scored or masked as the failure table says."""
        reward = 0.0 if outcome_of(failure.kind) is Outcome.SCORE_ZERO else None
        return cls(reward=reward, failure=failure, details=details or {})
