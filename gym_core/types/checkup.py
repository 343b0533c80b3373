"""What a look at the parts of a gym found, before hours are spent on them."""

from enum import StrEnum

from gym_core.types.wire import Wire


class CheckState(StrEnum):
    OK = "ok"
    WARN = "warn"
    """A run begins; something of it will be missing, or slower, or is not known."""
    FAIL = "fail"
    """A run would not begin, or nothing good would come of it."""


class Finding(Wire):
    """One line of `gym doctor`."""

    check: str
    """What was looked at: "endpoint", "judge", "disk", ..."""
    state: CheckState
    tried: str
    on: str
    """An address, a path, a name."""
    found: str
    advice: str = ""
    """What to do about it; "" when nothing is wrong."""
    seconds: float = 0.0


class ColourAnswer(Wire):
    shown: str
    """"red" or "blue": the whole picture."""
    said: str
    """The end of the model's reply; "" for an empty one."""


class AbilityReport(Wire):
    """What a model was seen to be able to do, by a few answers of it. Takes seconds, more where it reasons."""

    colours: list[ColourAnswer] = []
    """[] when a question was not answered."""
    tells_colours: bool = False
    called_tool: bool = False
    refusal: str | None = None
    """What the endpoint said instead of answering a request with tools, in which "auto" chooses; None: it answered."""
    message: str = ""
    """Why a question about colours was not answered."""


class JudgeReport(Wire):
    """How the judge of an environment graded two answers that leave no doubt."""

    judge: str | None = None
    """What judges; None for an environment without a judge."""
    right: str | None = None
    """Its verdict on a right answer, in other words than the gold; None when it gave none."""
    wrong: str | None = None
    failure: str | None = None
    """Why it gave no verdict."""
