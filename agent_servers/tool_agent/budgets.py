"""What a rollout may use, and how it ended: the fields of the block, the count so far, the words. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import Field

from gym_core.errors import AgentError, EpisodeError, FailureKind
from gym_core.types.responses import Usage
from gym_core.types.wire import Wire


class Ending(StrEnum):
    """How the loop ended; `ending` of the agent's report."""

    FINISHED = "finished"
    """The model answered without a call."""
    ENDED_BY_TOOL = "ended_by_tool"
    MAX_TURNS = "max_turns"
    TOOL_BUDGET = "tool_budget"
    IMAGE_BUDGET = "image_budget"
    TOKEN_BUDGET = "token_budget"
    OUTPUT_CAP = "output_cap"
    CONTEXT_LIMIT = "context_limit"
    EMPTY_ANSWER = "empty_answer"
    TIMEOUT = "timeout"
    ENDPOINT_FAILED = "endpoint_failed"
    TOOL_FAILED = "tool_failed"


class Budgets(Wire):
    """`budgets` of the block; all of one rollout unless said otherwise."""

    max_turns: int = Field(default=16, gt=0)
    """Answers of the model; a forced final answer is one more. The calls of the last one run, unless an answer is
    forced: what they do may count, though no answer follows."""
    max_tool_calls: int = Field(default=64, ge=0)
    """A turn whose calls would exceed it runs none of them."""
    max_images: int = Field(default=32, ge=0)
    """Pictures that tools return."""
    prompt_images_count: bool = False
    """Whether the prompt's pictures are among those."""
    max_image_pixels: int = Field(default=64_000_000, ge=0)
    """Of those pictures together."""
    max_output_tokens: int | None = Field(default=None, gt=0)
    """Of one answer; None is what the policy server allows."""
    max_response_tokens: int | None = Field(default=None, gt=0)
    """Of all that follows the prompt, answers and what tools returned, as the endpoint counts it. None is no limit."""
    at_budget: Literal["end", "force_answer"] = "end"
    """What a used-up budget of turns, calls or images does: end the rollout, or ask once more for an answer without
    calls."""


BUDGET_WORDS = {
    Ending.MAX_TURNS: "no turn is left",
    Ending.TOOL_BUDGET: "no tool call is left",
    Ending.IMAGE_BUDGET: "no image is left",
}


def tokens_failure() -> EpisodeError:
    return AgentError("the tokens of the rollout are used up", kind=FailureKind.OUTPUT_CAP)


def budget_failure(ending: Ending) -> EpisodeError:
    """A used-up budget without an answer is the model's doing."""
    return AgentError(
        f"{BUDGET_WORDS[ending]}, and the model's last message is a call", kind=FailureKind.NO_FINAL_ANSWER
    )


@dataclass
class Used:
    turns: int = 0
    tool_calls: int = 0
    images: int = 0
    image_pixels: int = 0
    prompt_images: int = 0
    """Of the prompt, where they count."""
    prompt_tokens: int | None = None
    """Of the first call; None before it."""
    response_tokens: int = 0
    """Of all that followed, up to the end of the last answer."""

    def count_tokens(self, usage: Usage) -> None:
        """Of one call; endpoints without a count say 0, and use nothing up."""
        if self.prompt_tokens is None:
            self.prompt_tokens = usage.input_tokens
        self.response_tokens = max(self.response_tokens, usage.total_tokens - self.prompt_tokens)

    def tokens_left(self, budgets: Budgets) -> int | None:
        """0 or less when they are used up; None without a limit."""
        limit = budgets.max_response_tokens
        return None if limit is None else limit - self.response_tokens

    def refuses_calls(self, budgets: Budgets, n_calls: int) -> Ending | None:
        """The budget that keeps a turn's calls from being run, if there is one."""
        if self.tool_calls + n_calls > budgets.max_tool_calls:
            return Ending.TOOL_BUDGET
        if budgets.at_budget == "force_answer" and self.is_out_of_turns(budgets):
            return Ending.MAX_TURNS
        return None

    def is_out_of_turns(self, budgets: Budgets) -> bool:
        return self.turns >= budgets.max_turns

    def refuses_images(self, budgets: Budgets, pixels: list[int]) -> bool:
        """Whether pictures of so many pixels each are too many or too large to be shown."""
        too_many = self.prompt_images + self.images + len(pixels) > budgets.max_images
        return bool(pixels) and (too_many or self.image_pixels + sum(pixels) > budgets.max_image_pixels)
