"""A completion as it grows: the policy's tokens with the text they make, up to its end or a stop string."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from examples.tiny_vlm.policy import Finish, Policy
from examples.tiny_vlm.prompts import Prompt
from examples.tiny_vlm.sampling import Draw, Sampling


@dataclass(frozen=True)
class Task:
    prompt: Prompt
    sampling: Sampling
    stops: tuple[str, ...] = ()
    """Strings that end the answer. Their tokens are in the ids, and their text is not in the text."""
    skip_special_tokens: bool = True


@dataclass(frozen=True)
class Piece:
    """One token."""

    draw: Draw
    text: str
    """Often empty: the token completes no character, or may begin a stop string, or ends the turn."""
    finish: Finish | None = None
    stop_reason: int | str | None = None
    """The stop string, or the token where it is not the usual one."""

    @property
    def token(self) -> int:
        return self.draw.sampled.token


def complete(policy: Policy, tokenizer: Tokenizer, task: Task) -> Iterator[Piece | None]:
    """None marks a place to stop without a token."""
    decoder = DecodeStream(skip_special_tokens=task.skip_special_tokens)
    held = ""
    hold_chars = max((len(stop) - 1 for stop in task.stops), default=0)
    with closing(policy.steps(task.prompt, task.sampling)) as steps:  # type: ignore[type-var]  # a generator
        for step in steps:
            if step is None:
                yield None
                continue
            token = step.draw.sampled.token
            if step.finish != "stop":
                held += decoder.step(tokenizer, token) or ""
            found = _first_stop(held, task.stops)
            if found is not None:
                yield Piece(step.draw, held[: held.find(found)], "stop", found)
                return
            ready = held if step.finish else held[: max(0, len(held) - hold_chars)]
            held = held[len(ready) :]
            unusual = step.finish == "stop" and token != policy.end_tokens[0]
            yield Piece(step.draw, ready, step.finish, token if unusual else None)


def _first_stop(text: str, stops: tuple[str, ...]) -> str | None:
    found = [(text.find(stop), stop) for stop in stops if stop in text]
    return min(found)[1] if found else None
