"""A policy whose weights change while it is asked: pauses, and the version that each call is stamped with."""

from enum import StrEnum

from pydantic import Field

from gym_core.types.wire import WholeNumber, Wire

MAX_DRAIN_S = 3600.0


class PauseMode(StrEnum):
    DRAIN = "drain"
    """Answer when no call is in flight any more, or at the time-out."""
    KEEP = "keep"
    """Answer at once. Calls in flight go on, over the change of weights."""


class PausePolicy(Wire):
    mode: PauseMode = PauseMode.DRAIN
    timeout_s: float = Field(default=300.0, ge=0, le=MAX_DRAIN_S)
    """Longest wait of "drain". The pause goes on however it ends."""


class SetPolicyVersion(Wire):
    version: WholeNumber
    """Of the weights behind the endpoint from now on; yours to count."""


class PolicyState(Wire):
    """Of one model server. It is not kept: a server that was restarted runs, with version None."""

    paused: bool
    version: int | None
    """None until somebody set one."""
    in_flight: int
    """Requests that the endpoint has and has not answered whole."""
    waiting: int
    """Requests held here: by the pause, or by `max_concurrent_requests`."""
    resumes_in_s: float | None
    """Until the pause ends by itself; None without one."""


class PolicyStates(Wire):
    """Of each model server that is some environment's policy, by its name."""

    servers: dict[str, PolicyState]


class PausePolicies(PausePolicy):
    """As the head server is asked."""

    server: str | None = None
    """One model server by its name; None means all of them."""


class ResumePolicies(Wire):
    server: str | None = None


class SetPolicyVersions(SetPolicyVersion):
    server: str | None = None
