"""A trainer's forward pass over a whole sample, by plain transformers: no cache, nothing of the engine's code.

Float32 on one thread. The pictures come from the assets folder in the order of the sample. Torch is imported where it
is used: every run of the tests imports this module.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image

from gym_core.capture.images import AssetStore
from gym_core.types.sample import TrainingSample

if TYPE_CHECKING:
    import torch

INITIALIZER_RANGE = 0.12
"""Of the weights. At the builder's usual one a picture's part in a prompt of 6,000 tokens changes what follows by 5e-4
nats, at this by ten times as much."""


def build_seeing_model(folder: Path) -> Path:
    from examples.tiny_vlm.architectures import Sizes
    from examples.tiny_vlm.build import Recipe, build

    build(folder, Recipe(sizes=Sizes(initializer_range=INITIALIZER_RANGE)))
    return folder


class Teacher:
    """The model of a folder, as a trainer loads it."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForImageTextToText, PreTrainedTokenizerFast, Qwen2VLImageProcessorPil

        self.folder = folder
        torch.set_num_threads(1)
        self._model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        self._processor = Qwen2VLImageProcessorPil.from_pretrained(folder)
        self._tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        config = self._model.config
        self.image_pad = int(config.image_token_id)
        self.vision_start, self.vision_end = int(config.vision_start_token_id), int(config.vision_end_token_id)

    def text(self, ids: Sequence[int]) -> str:
        """Special tokens included."""
        return str(self._tokenizer.decode(ids))

    def grid(self, picture: bytes) -> tuple[int, int]:
        """Placeholders down and across."""
        _, rows, columns = (int(side) for side in self._read(picture)[1][0])
        merge = self._processor.merge_size
        return rows // merge, columns // merge

    def logprobs(self, sample: TrainingSample, pictures: Sequence[bytes]) -> npt.NDArray[np.float32]:
        """Float32[S]: of the trained tokens, in order."""
        import torch

        trained = [at for at, marked in enumerate(sample.loss_mask) if marked]
        ids = torch.tensor([sample.token_ids])
        read = [self._read(picture) for picture in pictures]
        given = {}
        if read:
            given["pixel_values"] = torch.cat([pixels for pixels, _ in read])
            given["image_grid_thw"] = torch.cat([grid for _, grid in read])
        self._model.model.rope_deltas = None  # transformers keeps the last prompt's on the module
        with torch.inference_mode():
            out = self._model(
                input_ids=ids,
                mm_token_type_ids=(ids == self.image_pad).long(),
                logits_to_keep=torch.tensor(trained) - 1,
                use_cache=False,
                **given,
            )
            told = torch.log_softmax(out.logits[0].float(), -1)
            picked = told[torch.arange(len(trained)), ids[0, trained]]
        return np.asarray(picked.numpy(), np.float32)

    def _read(self, picture: bytes) -> "tuple[torch.Tensor, torch.Tensor]":
        pixels = Image.open(io.BytesIO(picture)).convert("RGB")
        processed = self._processor(images=[pixels], return_tensors="pt")
        return processed["pixel_values"], processed["image_grid_thw"]


def pictures_of(sample: TrainingSample, assets: AssetStore) -> list[bytes]:
    """Raises FileNotFoundError and ValueError: the bytes are checked against their name."""
    return [assets.get(image.sha256) for image in sample.images]


def gap(sample: TrainingSample, told: npt.NDArray[np.float32]) -> float:
    """The largest difference to the captured log-probabilities, in nats."""
    captured = np.array(sample.logprobs, np.float32)[np.array(sample.loss_mask, bool)]
    return float(np.abs(captured - told).max())
