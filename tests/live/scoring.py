"""Log-probabilities by one plain forward pass of transformers; no code is shared with the engines compared to it."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, Qwen2VLImageProcessorPil


class Scorer:
    """Float32, one thread, no cache."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self._model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        self._processor = Qwen2VLImageProcessorPil.from_pretrained(folder)

    def logprobs(self, prompt: Sequence[int], sampled: Sequence[int], urls: Sequence[str]) -> list[float]:
        """Natural, at temperature 1, one a sampled token. The prompt holds one placeholder for each picture's token."""
        picked = self.distributions(prompt, sampled, urls).gather(1, torch.tensor(sampled)[:, None])
        return [float(value) for value in picked[:, 0]]

    def distributions(self, prompt: Sequence[int], sampled: Sequence[int], urls: Sequence[str]) -> torch.Tensor:
        """[sampled tokens, vocabulary]: log-probabilities before each sampled token."""
        ids = torch.tensor([[*prompt, *sampled]])
        kinds = torch.zeros_like(ids)
        kinds[0, : len(prompt)] = (ids[0, : len(prompt)] == self._model.config.image_token_id).long()
        pixels = {}
        if urls:
            processed = self._processor(images=[_read(url) for url in urls], return_tensors="pt")
            pixels = {key: processed[key] for key in ("pixel_values", "image_grid_thw")}
        self._model.model.rope_deltas = None  # of the last prompt; transformers keeps them on the module
        with torch.inference_mode():
            logits = self._model(input_ids=ids, mm_token_type_ids=kinds, use_cache=False, **pixels).logits[0]
        return torch.log_softmax(logits[len(prompt) - 1 : -1].float(), -1)


def _read(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")
