"""What rollouts take: tokens, what an endpoint charges for them, seconds, and what is left to spend."""

from typing import Annotated, Self

from pydantic import Field

from gym_core.types.wire import Wire

_MILLION = 1_000_000
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Of a million tokens."""


class TokenCount(Wire):
    """Tokens of some calls, as the endpoint counted them."""

    input: int = 0
    """Of prompts, those that the endpoint had cached included."""
    cached_input: int = 0
    """Of them, those that the endpoint says it had cached; 0 where it does not say."""
    output: int = 0
    calls: int = 0
    """Answered ones."""
    uncounted_calls: int = 0
    """Of them, those whose tokens the endpoint did not count."""

    def __add__(self, other: Self) -> "TokenCount":
        return TokenCount(**{name: getattr(self, name) + getattr(other, name) for name in TokenCount.model_fields})


class TokenPrices(Wire):
    """What an endpoint charges for a million tokens."""

    input: Price
    cached_input: Price | None = None
    """None: as `input`."""
    output: Price
    currency: str = Field(pattern=r"^[A-Z]{3}$")
    """ISO 4217, such as "USD"."""

    def cost_of(self, tokens: TokenCount) -> float | None:
        """None where the endpoint did not count some of them."""
        if tokens.uncounted_calls:
            return None
        cached = min(tokens.cached_input, tokens.input)
        for_cached = self.input if self.cached_input is None else self.cached_input
        return ((tokens.input - cached) * self.input + cached * for_cached + tokens.output * self.output) / _MILLION


class RunPrices(Wire):
    """Of the models of an environment. Those that are set are in one currency: a configuration with two is refused."""

    policy: TokenPrices | None = None
    judge: TokenPrices | None = None

    @property
    def currency(self) -> str | None:
        """None when no price is known."""
        return next((prices.currency for prices in (self.policy, self.judge) if prices), None)

    def cost_of(self, policy: TokenCount, judge: TokenCount) -> float | None:
        """Of both together. None, never 0, when a price that it takes is not known: the policy's always is, the
        judge's is when it was asked."""
        for_policy = self.policy.cost_of(policy) if self.policy else None
        for_judge = 0.0 if not judge.calls else self.judge.cost_of(judge) if self.judge else None
        return None if for_policy is None or for_judge is None else for_policy + for_judge


class Spend(Wire):
    """What a run took so far, over every attempt that left a row or a line in the failures file."""

    attempts: int = 0
    """Those that broke included."""
    policy: TokenCount = TokenCount()
    judge: TokenCount = TokenCount()
    policy_cost: float | None = None
    """None when no price is configured, or the endpoint did not count its tokens."""
    judge_cost: float | None = None
    cost: float | None = None
    """Of both; None when a part that there is has no price."""
    currency: str | None = None
    wall_s: float = 0.0
    """In which at least one attempt was being played."""
    sandbox_s: float = 0.0
    """Seconds of all sandboxes, from the request for one to its end."""
    model_s: float = 0.0
    """Seconds of all calls of the policy."""


class Forecast(Wire):
    """A sum over rollouts that were not played yet."""

    mean: float
    low_95: float | None = None
    high_95: float | None = None
    """95 % prediction interval of the sum; None when fewer than two rollouts were seen."""


class RestEstimate(Wire):
    """What the rollouts that are left will take, if they are like those that were played."""

    rollouts: int
    """Left."""
    seen: int
    """Finished ones that this is made of."""
    wall_s: Forecast
    """With as many in flight as the run has slots."""
    sandbox_s: Forecast
    input_tokens: Forecast
    output_tokens: Forecast
    """Of the policy and the judge."""
    cost: Forecast | None = None
    """None when some rollout's cost is not known."""
    currency: str | None = None
