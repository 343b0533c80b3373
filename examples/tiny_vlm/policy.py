"""The model itself: prefill with reuse of known prefixes, then a token at a time. Float32, one prompt at once.

Positions are worked out here and passed in. Left to itself, transformers keeps the last prompt's offset on the module,
and a text prompt after one with pictures gets stale positions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import AutoModelForImageTextToText, DynamicCache

from examples.tiny_vlm.prefix_cache import PrefixCache, prompt_keys
from examples.tiny_vlm.prompts import Prompt
from examples.tiny_vlm.sampling import Draw, LogprobsMode, Sampler, Sampling

PREFILL_TOKENS = 4096
"""A step of prefill: bounds its memory, and a caller who leaves is noticed between two."""

Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class Step:
    draw: Draw
    finish: Finish | None
    """None while more tokens follow."""


@dataclass(frozen=True)
class _Piece:
    """Part of a prompt for one forward pass: tokens [start, end) and the pictures that lie in it."""

    start: int
    end: int
    first_picture: int
    last_picture: int
    """One past the last."""


class Policy:
    """One thread at a time."""

    def __init__(self, folder: Path, mode: LogprobsMode) -> None:
        self.mode = mode
        self._folder = folder
        self._prefixes = PrefixCache()
        self.reload()

    def reload(self) -> None:
        """Take the weights that are on disk now, and forget all that was computed with others.

        They are copied: as loaded they are the file itself, mapped, and would change under us when somebody writes it.
        """
        self._model = AutoModelForImageTextToText.from_pretrained(self._folder, dtype=torch.float32).eval()
        for weight in self._model.parameters():
            weight.data = weight.data.clone()
        self._prefixes.clear()

    def forget_prefixes(self) -> None:
        self._prefixes.clear()

    @property
    def image_pad(self) -> int:
        return int(self._model.config.image_token_id)

    @property
    def end_tokens(self) -> tuple[int, ...]:
        """Tokens that end an answer; the first is the usual one."""
        return tuple(self._model.generation_config.eos_token_id)

    @property
    def vocab_size(self) -> int:
        return int(self._model.config.get_text_config().vocab_size)

    @property
    def context_tokens(self) -> int:
        return int(self._model.config.get_text_config().max_position_embeddings)

    def steps(self, prompt: Prompt, sampling: Sampling) -> Iterator[Step | None]:
        """The completion's tokens; None after each part of the prefill. Close it to stop early."""
        sampler = Sampler(sampling, self.mode)
        known, states = self._prefixes.longest(prompt)
        states = DynamicCache(config=self._model.config) if states is None else states
        positions = self._positions(prompt)
        fed: list[int] = []
        try:
            logits = None
            for piece in self._pieces(prompt, known):
                logits = self._prefill(prompt, piece, positions, states)
                yield None
            next_position = int(positions.max()) + 1
            while logits is not None:
                step = self._step(sampler, sampling, logits, len(fed))
                yield step
                if step.finish:
                    break
                fed.append(step.draw.sampled.token)
                logits = self._feed(fed[-1], next_position + len(fed) - 1, states)
        finally:
            if states.get_seq_length() == len(prompt.token_ids) + len(fed):
                self._prefixes.keep(prompt_keys(prompt, fed), states)

    def _step(self, sampler: Sampler, sampling: Sampling, logits: torch.Tensor, done: int) -> Step:
        forced = None if sampling.forced is None else sampling.forced[done]
        draw = sampler.draw(logits, forced)
        finish: Finish | None = None
        if draw.sampled.token in self.end_tokens and not sampling.ignore_eos:
            finish = "stop"
        elif done + 1 >= min(sampling.max_tokens, len(sampling.forced or range(sampling.max_tokens))):
            finish = "length"
        return Step(draw, finish)

    def _prefill(self, prompt: Prompt, piece: _Piece, positions: torch.Tensor, states: DynamicCache) -> torch.Tensor:
        """Logits after the piece's last token."""
        pictures = prompt.pictures[piece.first_picture : piece.last_picture]
        pixels = {}
        if pictures:
            pixels["pixel_values"] = torch.cat([picture.patches for picture in pictures])
            pixels["image_grid_thw"] = torch.tensor([picture.grid for picture in pictures])
        where = positions[:, :, piece.start : piece.end]
        return self._forward(prompt.token_ids[piece.start : piece.end], where, states, pixels)

    def _feed(self, token: int, position: int, states: DynamicCache) -> torch.Tensor:
        return self._forward([token], torch.full((3, 1, 1), position), states, {})

    def _forward(
        self, tokens: Sequence[int], where: torch.Tensor, states: DynamicCache, pixels: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """Logits after the last token; the states grow by the tokens."""
        ids = torch.tensor([tokens])
        with torch.inference_mode():
            out = self._model(
                input_ids=ids, position_ids=where, cache=states, use_cache=True, logits_to_keep=1, **pixels
            )
        return out.logits[0, -1].float()

    def _positions(self, prompt: Prompt) -> torch.Tensor:
        """[3, 1, tokens]: time, height, width."""
        ids = torch.tensor([prompt.token_ids])
        if not prompt.pictures:
            return torch.arange(ids.shape[1]).expand(3, 1, -1)
        kinds = torch.zeros_like(ids)
        for span in prompt.placeholders:
            kinds[0, span.offset : span.offset + span.length] = 1
        grids = torch.tensor([picture.grid for picture in prompt.pictures])
        where, _ = self._model.model.get_rope_index(ids, mm_token_type_ids=kinds, image_grid_thw=grids)
        return where

    def _pieces(self, prompt: Prompt, known: int) -> Iterator[_Piece]:
        """Cut what is not known into pieces that hold whole pictures.

        A placeholder token that belongs to no picture (the model sampled it) never shares a piece with pictures: the
        model counts the two by token id and would refuse.
        """
        owned = [range(span.offset, span.offset + span.length) for span in prompt.placeholders]
        belongs = {token for span in owned for token in span}
        pads = (at for at in range(known, len(prompt.token_ids)) if prompt.token_ids[at] == self.image_pad)
        strays = [at for at in pads if at not in belongs]
        cuts = {known, len(prompt.token_ids)}
        for stray in strays:
            cuts |= {stray, stray + 1}
        start = known
        for at in sorted(cuts)[1:]:
            while start < at:
                end = min(at, start + PREFILL_TOKENS)
                end = next((span.start for span in owned if span.start < end < span.stop and span.start > start), end)
                inside = [k for k, span in enumerate(owned) if start <= span.start < end]
                yield _Piece(start, end, inside[0] if inside else 0, inside[-1] + 1 if inside else 0)
                start = end
