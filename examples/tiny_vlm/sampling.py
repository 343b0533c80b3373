"""How the next token is drawn, and which log-probability is told of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import torch

CUT = -9999.0
"""Log-probability told of a token that top_k or top_p removed: JSON knows no infinity. As in vLLM."""
GREEDY_BELOW = 1e-5
"""Temperatures under this take the likeliest token."""


class LogprobsMode(StrEnum):
    RAW = "raw_logprobs"
    """Of the model's own distribution, whatever the sampling parameters."""
    PROCESSED = "processed_logprobs"
    """Of the distribution sampled from: after bias, temperature, top_k and top_p."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 or less: no limit."""
    seed: int | None = None
    top_logprobs: int = 0
    """Likeliest tokens to tell beside the sampled one."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    ignore_eos: bool = False
    forced: tuple[int, ...] | None = None
    """Tokens to take instead of sampling; the model still scores them."""


@dataclass(frozen=True)
class Score:
    """A token with its log-probability (natural) and its rank, 1 the likeliest."""

    token: int
    logprob: float
    rank: int


@dataclass(frozen=True)
class Draw:
    sampled: Score
    likeliest: tuple[Score, ...]
    """The best first; may hold the sampled one."""


class Sampler:
    """Draws one completion's tokens."""

    def __init__(self, sampling: Sampling, mode: LogprobsMode) -> None:
        self._sampling = sampling
        self._mode = mode
        self._generator = torch.Generator()
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed)

    def draw(self, logits: torch.Tensor, forced: int | None) -> Draw:
        """logits: float32, [vocabulary]. A `forced` token is scored and not drawn."""
        processed = self._processed(logits)
        told = torch.log_softmax(logits if self._mode is LogprobsMode.RAW else processed, -1)
        if forced is not None:
            token = forced
        elif self._sampling.temperature < GREEDY_BELOW:
            token = int(processed.argmax())
        else:
            token = int(torch.multinomial(torch.softmax(processed, -1), 1, generator=self._generator))
        best = torch.topk(told, self._sampling.top_logprobs)
        likeliest = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return Draw(
            Score(token, max(float(told[token]), CUT), int((told > told[token]).sum()) + 1),
            tuple(Score(other, max(value, CUT), rank) for rank, (value, other) in enumerate(likeliest, start=1)),
        )

    def _processed(self, logits: torch.Tensor) -> torch.Tensor:
        sampling = self._sampling
        logits = logits.clone()
        for token, bias in sampling.logit_bias.items():
            logits[token] += bias
        if sampling.temperature < GREEDY_BELOW:
            return logits
        logits /= sampling.temperature
        if 0 < sampling.top_k < logits.numel():
            logits[logits < torch.topk(logits, sampling.top_k).values[-1]] = -torch.inf
        if sampling.top_p < 1.0:
            ordered, order = logits.sort()
            below = torch.softmax(ordered, -1).cumsum(-1) <= 1.0 - sampling.top_p
            below[-1] = False  # the likeliest always stays
            logits[order[below]] = -torch.inf
        return logits
