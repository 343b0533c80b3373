"""Build a directory with a tiny vision-language model that transformers and vLLM both load. Offline, in seconds.

    python -m examples.tiny_vlm.build OUT [--arch qwen2_vl|qwen3_vl] [--template chatml|naive] [--vocab N] [--seed N]

The weights are random: the model talks nonsense until something trains it.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from tokenizers import Tokenizer
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2VLImageProcessorPil

from examples.tiny_vlm.architectures import (
    PATCH_PIXELS,
    PROCESSORS,
    VIDEO_PROCESSORS,
    Architecture,
    Sizes,
    configure,
    initialise,
)
from examples.tiny_vlm.tokenizer import (
    END_OF_TEXT,
    END_OF_TURN,
    IMAGE_PAD,
    SPECIAL_TOKENS,
    VIDEO_PAD,
    VISION_END,
    VISION_START,
    train_tokenizer,
)

TEMPLATES = Path(__file__).parent / "templates"
MERGE_SIZE = 2
MIN_IMAGE_TOKENS, MAX_IMAGE_TOKENS = 4, 64
"""Pictures are scaled to fit between these; 64 tokens are 224 x 224 pixels at patches of 14."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides a build, with this Python and these package versions."""

    architecture: Architecture = Architecture.QWEN2_VL
    template: Literal["chatml", "naive"] = "chatml"
    """`naive` is the template that leaks lists into prompts, for tests of those who must notice."""
    vocab_size: int = 8192
    seed: int = 0
    sizes: Sizes = field(default_factory=Sizes)


def build(out: Path, recipe: Recipe) -> int:
    """Write the model's directory, made if absent; returns the number of weights."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(recipe.vocab_size)
    torch.manual_seed(recipe.seed)
    model = initialise(configure(recipe.architecture, recipe.sizes, tokenizer))
    model.generation_config = GenerationConfig(
        eos_token_id=[tokenizer.token_to_id(END_OF_TURN), tokenizer.token_to_id(END_OF_TEXT)],
        pad_token_id=tokenizer.token_to_id(END_OF_TEXT),
    )
    model.save_pretrained(out)
    _save_tokenizer(out, tokenizer, recipe)
    _save_processors(out, recipe.architecture)
    return sum(weight.numel() for weight in model.parameters())


def _save_tokenizer(out: Path, tokenizer: Tokenizer, recipe: Recipe) -> None:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[token for token in SPECIAL_TOKENS if token != END_OF_TEXT],
        clean_up_tokenization_spaces=False,
        model_max_length=recipe.sizes.context_tokens,
    )
    fast.chat_template = (TEMPLATES / f"{recipe.template}.jinja").read_text(encoding="utf-8")
    fast.save_pretrained(out)
    names = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "image_token": IMAGE_PAD,
        "video_token": VIDEO_PAD,
        "vision_start_token": VISION_START,
        "vision_end_token": VISION_END,
        "vision_bos_token": VISION_START,
        "vision_eos_token": VISION_END,
    }
    _update_json(out / "tokenizer_config.json", names)


def _save_processors(out: Path, architecture: Architecture) -> None:
    """Image sizes are one rule for both; the video file is there because the processor classes ask for it."""
    patch = PATCH_PIXELS[architecture]
    token_pixels = (patch * MERGE_SIZE) ** 2
    size = {"shortest_edge": MIN_IMAGE_TOKENS * token_pixels, "longest_edge": MAX_IMAGE_TOKENS * token_pixels}
    shape = {"patch_size": patch, "merge_size": MERGE_SIZE, "temporal_patch_size": 2, "size": size}
    Qwen2VLImageProcessorPil(**shape).save_pretrained(out)
    classes = {"image_processor_type": "Qwen2VLImageProcessor", "processor_class": PROCESSORS[architecture]}
    _update_json(out / "preprocessor_config.json", classes)
    _update_json(
        out / "video_preprocessor_config.json", shape | {"video_processor_type": VIDEO_PROCESSORS[architecture]}
    )


def _update_json(path: Path, more: Mapping[str, object]) -> None:
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**known, **more}, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a tiny, randomly initialised vision-language model.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--arch", type=Architecture, choices=list(Architecture), default=Architecture.QWEN2_VL)
    parser.add_argument("--template", choices=("chatml", "naive"), default="chatml")
    parser.add_argument("--vocab", type=int, default=Recipe.vocab_size, help="tokens, special ones included")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    recipe = Recipe(architecture=given.arch, template=given.template, vocab_size=given.vocab, seed=given.seed)
    weights = build(given.out, recipe)
    sys.stdout.write(f"{recipe.architecture}: {weights:,} weights in {given.out}\n")


if __name__ == "__main__":
    main()
