"""Sizes of the tiny model, and the two of Qwen's architectures it can take: Qwen2-VL and Qwen3-VL.

Both run in transformers and in vLLM on a CPU. Not here: weights; they are random.
"""

from dataclasses import dataclass
from enum import StrEnum

from tokenizers import Tokenizer
from transformers import (
    PretrainedConfig,
    PreTrainedModel,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from examples.tiny_vlm.tokenizer import END_OF_TEXT, END_OF_TURN, IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START


class Architecture(StrEnum):
    QWEN2_VL = "qwen2_vl"
    QWEN3_VL = "qwen3_vl"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of the tower that reads pixels and of the one that reads tokens."""

    hidden: int = 64
    """Width of the token tower. hidden / heads is the size of a head: vLLM's CPU attention needs 32 or more."""
    layers: int = 2
    heads: int = 2
    kv_heads: int = 1
    vision_hidden: int = 64
    vision_layers: int = 2
    vision_heads: int = 2
    initializer_range: float = 0.06
    """Of the normal distribution of fresh weights. At the usual 0.02 a picture hardly shows in so small a hidden
    state, and nothing can be learned from it."""
    context_tokens: int = 40960

    def __post_init__(self) -> None:
        if self.head_dim < 32:
            raise ValueError(f"heads of {self.head_dim}: vLLM on a CPU answers /health and dies at the first request")

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


PATCH_PIXELS = {Architecture.QWEN2_VL: 14, Architecture.QWEN3_VL: 16}
"""Side of a patch; two by two of them become one token."""
PROCESSORS = {Architecture.QWEN2_VL: "Qwen2VLProcessor", Architecture.QWEN3_VL: "Qwen3VLProcessor"}
VIDEO_PROCESSORS = {Architecture.QWEN2_VL: "Qwen2VLVideoProcessor", Architecture.QWEN3_VL: "Qwen3VLVideoProcessor"}


def configure(architecture: Architecture, sizes: Sizes, tokenizer: Tokenizer) -> PretrainedConfig:
    """The model's configuration for this vocabulary, in float32."""
    third = sizes.head_dim // 6
    rope: dict[str, object] = {
        "rope_type": "default",
        "rope_theta": 1e6,
        "mrope_section": [sizes.head_dim // 2 - 2 * third, third, third],
    }
    text: dict[str, object] = {
        "vocab_size": _padded(tokenizer.get_vocab_size()),
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.hidden * 3,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "max_position_embeddings": sizes.context_tokens,
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.token_to_id(END_OF_TEXT),
        "eos_token_id": tokenizer.token_to_id(END_OF_TURN),
        "pad_token_id": tokenizer.token_to_id(END_OF_TEXT),
        "initializer_range": sizes.initializer_range,
    }
    vision: dict[str, object] = {
        "depth": sizes.vision_layers,
        "num_heads": sizes.vision_heads,
        "patch_size": PATCH_PIXELS[architecture],
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "initializer_range": sizes.initializer_range,
    }
    tokens = {
        "image_token_id": tokenizer.token_to_id(IMAGE_PAD),
        "video_token_id": tokenizer.token_to_id(VIDEO_PAD),
        "vision_start_token_id": tokenizer.token_to_id(VISION_START),
        "vision_end_token_id": tokenizer.token_to_id(VISION_END),
    }
    if architecture is Architecture.QWEN2_VL:
        vision |= {"embed_dim": sizes.vision_hidden, "hidden_size": sizes.hidden, "mlp_ratio": 2}
        config: PretrainedConfig = Qwen2VLConfig(
            text_config=text | {"rope_parameters": rope}, vision_config=vision, **tokens
        )
    else:
        vision |= {
            "hidden_size": sizes.vision_hidden,
            "out_hidden_size": sizes.hidden,
            "intermediate_size": sizes.vision_hidden * 2,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0],
        }
        text |= {"head_dim": sizes.head_dim, "rope_parameters": rope | {"mrope_interleaved": True}}
        config = Qwen3VLConfig(text_config=text, vision_config=vision, **tokens)
    config.dtype = "float32"
    return config


def initialise(config: PretrainedConfig) -> PreTrainedModel:
    """Fresh random weights from torch's global generator."""
    if isinstance(config, Qwen2VLConfig):
        return Qwen2VLForConditionalGeneration(config).float().eval()
    return Qwen3VLForConditionalGeneration(config).float().eval()


def _padded(vocab_size: int) -> int:
    return (vocab_size + 63) // 64 * 64
