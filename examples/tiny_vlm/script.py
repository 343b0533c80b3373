"""A function that plays the policy's part: it says what to write, and the model scores every token of it.

For tests that need a real engine's tokens and log-probabilities, and conversations that lead somewhere. Cut at random,
the text gets tokens that no tokenizer would choose for it, as sampling does; a later prompt with the same text then has
other tokens.
"""

import importlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from examples.tiny_vlm.prompts import Conversation
from gym_core.types.wire import JsonObject

ScriptFunction = Callable[[Sequence[JsonObject], Sequence[JsonObject] | None], str | list[int] | None]
"""Messages and tools of the request in, the answer out. Text gets the end of the turn; ids are taken as they are;
None lets the model speak for itself."""

SPLIT_PROBABILITY = 0.3


def load_script(name: str) -> ScriptFunction:
    """`package.module:function`, importable from where the server runs."""
    module, _, function = name.partition(":")
    loaded: ScriptFunction = getattr(importlib.import_module(module), function)
    return loaded


@dataclass(frozen=True)
class Script:
    function: ScriptFunction
    tokenizer: Tokenizer
    end_of_turn: int
    split_seed: int | None = None
    """None: the tokenizer's own tokens."""

    def tokens(self, conversation: Conversation) -> tuple[int, ...] | None:
        answer = self.function(conversation.messages, conversation.tools)
        return None if answer is None else self.encode(answer)

    def encode(self, answer: str | Sequence[int]) -> tuple[int, ...]:
        if not isinstance(answer, str):
            return tuple(answer)
        tokens = self.tokenizer.encode(answer, add_special_tokens=False).ids
        if self.split_seed is not None:
            tokens = split_tokens(tokens, self.tokenizer, random.Random(f"{self.split_seed}:{answer}"))
        return (*tokens, self.end_of_turn)


def split_tokens(tokens: Sequence[int], tokenizer: Tokenizer, rng: random.Random) -> list[int]:
    """The same text in more tokens: some are cut in two at a random byte, where both halves are tokens too."""
    added = tokenizer.get_added_tokens_decoder()
    out: list[int] = []
    for token in tokens:
        piece = tokenizer.id_to_token(token) or ""
        if token not in added and len(piece) > 1 and rng.random() < SPLIT_PROBABILITY:
            cut = rng.randrange(1, len(piece))
            halves = (tokenizer.token_to_id(piece[:cut]), tokenizer.token_to_id(piece[cut:]))
            out += [half for half in halves if half is not None] if None not in halves else [token]
        else:
            out.append(token)
    return out
