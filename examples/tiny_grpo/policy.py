"""The trainer's side of the policy: its weights, the log-probabilities of samples under them, and the GRPO step.

Shapes: B samples of at most T tokens; `logprobs_BT` is 0 where nothing was sampled.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, PreTrainedTokenizerFast, Qwen2VLImageProcessorPil
from transformers.utils import logging as transformers_logging

from gym_core.types.sample import TrainingSample

CLIP = 0.2
MAX_GRADIENT_NORM = 1.0

ImageBytes = Callable[[str], bytes]
"""SHA-256 to the file as the policy was sent it."""


@dataclass(frozen=True)
class StepReport:
    max_gap: float
    """Largest |log-probability now - log-probability captured| over the sampled tokens, before the update."""
    mean_gap: float
    loss: float
    gradient_norm: float


class TinyPolicy:
    """Loads and saves the folder that the engine serves. fp32 on one thread: batches of this size gain by no second."""

    def __init__(self, folder: Path, *, learning_rate: float) -> None:
        torch.set_num_threads(1)
        transformers_logging.disable_progress_bar()
        self.folder = folder
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        # Not AutoProcessor: its video half wants torchvision.
        self._pictures = Qwen2VLImageProcessorPil.from_pretrained(folder)
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
        self._placeholder = self.model.config.image_token_id
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate, weight_decay=0.0)

    def save(self) -> None:
        self.model.save_pretrained(self.folder)

    def logprobs(self, samples: Sequence[TrainingSample], image: ImageBytes) -> torch.Tensor:
        """logprobs_BT of each token given those before it; entry 0 of a row is 0."""
        inputs = self._inputs(samples, image)
        logits = self.model(**inputs).logits[:, :-1].float()
        ids = inputs["input_ids"][:, 1:, None]
        return torch.nn.functional.pad(torch.log_softmax(logits, -1).gather(-1, ids)[..., 0], (1, 0))

    def step(self, samples: Sequence[TrainingSample], image: ImageBytes) -> StepReport:
        """One clipped policy-gradient step over every trained token, each weighted alike. Samples need an advantage."""
        now = self.logprobs(samples, image)
        length = now.shape[1]
        captured = _padded([sample.logprobs for sample in samples], length)
        trained = _padded([[float(bit) for bit in sample.loss_mask] for sample in samples], length)
        advantage = torch.tensor([[sample.advantage or 0.0] for sample in samples])
        gap = ((now.detach() - captured) * trained).abs()
        ratio = torch.exp((now - captured) * trained)
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        loss = -(gain * trained).sum() / trained.sum()
        norm = self._descend(loss)
        return StepReport(float(gap.max()), float(gap.sum() / trained.sum()), float(loss.detach()), norm)

    def imitate(self, samples: Sequence[TrainingSample], image: ImageBytes) -> float:
        """One step of maximum likelihood on the trained tokens. Returns the loss."""
        now = self.logprobs(samples, image)
        trained = _padded([[float(bit) for bit in sample.loss_mask] for sample in samples], now.shape[1])
        loss = -(now * trained).sum() / trained.sum()
        self._descend(loss)
        return float(loss.detach())

    def set_learning_rate(self, learning_rate: float) -> None:
        """Starts the optimizer anew."""
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate, weight_decay=0.0)

    def _descend(self, loss: torch.Tensor) -> float:
        self._optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT_NORM)
        self._optimizer.step()
        return float(norm)

    def _inputs(self, samples: Sequence[TrainingSample], image: ImageBytes) -> dict[str, torch.Tensor]:
        length = max(len(sample.token_ids) for sample in samples)
        ids = torch.full((len(samples), length), self.tokenizer.pad_token_id)
        attention = torch.zeros_like(ids)
        for row, sample in enumerate(samples):
            ids[row, : len(sample.token_ids)] = torch.tensor(sample.token_ids)
            attention[row, : len(sample.token_ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": attention}
        pictures = [_opened(image(picture.sha256)) for sample in samples for picture in sample.images]
        if pictures:
            inputs |= dict(self._pictures(images=pictures, return_tensors="pt"))
            inputs["mm_token_type_ids"] = (ids == self._placeholder).long()
        return inputs


def _opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content)).convert("RGB")


def _padded(rows: Sequence[Sequence[float]], length: int) -> torch.Tensor:
    return torch.tensor([[*row, *[0.0] * (length - len(row))] for row in rows])
