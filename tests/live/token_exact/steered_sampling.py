"""Runs within vLLM (`--logits-processors`): of each next token, only those that go on with the text to be said.

Which of them, and so into what tokens the text is cut, is left to the model: vLLM samples by itself. It takes raw
log-probabilities before it asks this module, so they are of the model's own distribution.
"""

from collections.abc import Callable, Sequence

import torch
from transformers import PreTrainedTokenizerFast
from vllm import SamplingParams  # type: ignore[import-not-found]  # of vLLM's own environment
from vllm.config import VllmConfig  # type: ignore[import-not-found]  # the same
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor  # type: ignore[import-not-found]  # the same

SAY = "say"

Allow = Callable[[Sequence[int], torch.Tensor], torch.Tensor]
"""Ids sampled so far and the logits of the next one, [vocabulary], to those logits with most of them cut."""


class SteeredSampling(AdapterLogitsProcessor):  # type: ignore[misc]  # vLLM is untyped here
    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(vllm_config.model_config.model)
        self._end_of_turn = int(tokenizer.eos_token_id)
        special = set(tokenizer.all_special_ids)
        texts = {token: tokenizer.decode([token]) for token in range(len(tokenizer)) if token not in special}
        self._texts = {token: text for token, text in texts.items() if text and text.isascii()}

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> Allow | None:
        said = (params.extra_args or {}).get(SAY)
        return None if said is None else self._allow(said)

    def _allow(self, said: str) -> Allow:
        def allow(sampled: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
            left = said[sum(len(self._texts[token]) for token in sampled) :]
            allowed = [token for token, text in self._texts.items() if left.startswith(text)] or [self._end_of_turn]
            cut = torch.full_like(logits, -torch.inf)
            cut[allowed] = logits[allowed]
            return cut

        return allow
