"""One served model: requests in, tasks for its policy out, and the checks between. Computes nothing itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen2VLImageProcessorPil

from examples.tiny_vlm.completion import Piece, Task, complete
from examples.tiny_vlm.errors import BadRequest
from examples.tiny_vlm.pictures import PictureReader
from examples.tiny_vlm.policy import Policy
from examples.tiny_vlm.prompts import Conversation, Prompt, Renderer, Span, read_chatml
from examples.tiny_vlm.sampling import LogprobsMode, Sampling
from examples.tiny_vlm.script import Script, load_script
from examples.tiny_vlm.wire import ChatRequest, Features, GenerateRequest, TokenizeRequest


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    folder: Path
    """As `build` writes it."""
    name: str = "policy"
    """The model's name on the wire."""
    logprobs_mode: LogprobsMode = LogprobsMode.RAW
    has_reasoning: bool = False
    """Read `<think>` as reasoning. An answer that never closes it is all reasoning."""
    script: str | None = None
    """`module:function` that answers in the model's place; see `script.py`."""
    split_seed: int | None = None
    """Write the script's text in tokens cut at random."""
    max_model_len: int | None = None
    """Tokens of prompt and answer together; None for what the model was built with."""


class Engine:
    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.policy = Policy(settings.folder, settings.logprobs_mode)
        fast = PreTrainedTokenizerFast.from_pretrained(settings.folder)
        self.tokenizer: Tokenizer = fast.backend_tokenizer
        self._pictures = PictureReader(Qwen2VLImageProcessorPil.from_pretrained(settings.folder))
        self._renderer = Renderer(fast, self._pictures, self.policy.image_pad)
        function = load_script(settings.script) if settings.script else lambda messages, tools: None
        self._script = Script(function, self.tokenizer, self.policy.end_tokens[0], settings.split_seed)
        self.max_model_len = min(settings.max_model_len or self.policy.context_tokens, self.policy.context_tokens)

    def render(self, request: ChatRequest) -> Prompt:
        conversation = Conversation(request.messages, request.tools)
        prompt = self._renderer.render(conversation, add_generation_prompt=request.add_generation_prompt)
        if (length := len(prompt.token_ids)) > self.max_model_len:
            raise BadRequest(
                f"This model's maximum context length is {self.max_model_len} tokens. However, your prompt contains "
                f"{length} input tokens, which exceeds this limit even without any output tokens. Please reduce the "
                f"length of the input prompt. (parameter=input_tokens, value={length})"
            )
        return prompt

    def tokenize(self, request: TokenizeRequest) -> list[int]:
        if request.messages is None:
            return self._renderer.encode(request.prompt or "")
        conversation = Conversation(request.messages, request.tools)
        prompt = self._renderer.render(conversation, add_generation_prompt=request.add_generation_prompt)
        return prompt.token_ids

    def chat_task(self, request: ChatRequest) -> Task:
        prompt = self.render(request)
        forced: Sequence[int] | None = request.force_token_ids
        if forced is None and request.force_text is not None:
            forced = self._script.encode(request.force_text)
        if forced is None:
            forced = self._script.tokens(Conversation(request.messages, request.tools))
        sampling = Sampling(
            max_tokens=self._max_tokens(request.max_completion_tokens or request.max_tokens, prompt),
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            seed=request.seed,
            top_logprobs=request.top_logprobs or 0,
            logit_bias=self._known_bias(request.logit_bias),
            ignore_eos=request.ignore_eos,
            forced=self._known_tokens(forced),
        )
        return Task(prompt, sampling, request.stops, skip_special_tokens=not request.uses_tools)

    def generate_task(self, request: GenerateRequest) -> Task:
        self._known_tokens(request.token_ids)
        if request.features:
            prompt = self._with_features(request.token_ids, request.features)
        else:
            pictures = [self._pictures.read_url(part.url) for part in request.content_parts or ()]
            prompt = self._renderer.expand(request.token_ids, pictures)
        if (length := len(prompt.token_ids)) > self.max_model_len:
            raise BadRequest(
                f"The decoder prompt (length {length}) is longer than the maximum model length of "
                f"{self.max_model_len}. Make sure that `max_model_len` is no smaller than the number of text tokens "
                "plus multimodal tokens."
            )
        forced: Sequence[int] | None = request.force_token_ids
        if forced is None:
            text = self.tokenizer.decode(prompt.token_ids, skip_special_tokens=False)
            forced = self._script.tokens(Conversation(read_chatml(text)))
        wanted = request.sampling_params
        sampling = Sampling(
            max_tokens=self._max_tokens(wanted.max_tokens, prompt),
            temperature=wanted.temperature,
            top_p=wanted.top_p,
            top_k=wanted.top_k,
            seed=wanted.seed,
            top_logprobs=wanted.logprobs or 0,
            logit_bias=self._known_bias(wanted.logit_bias),
            ignore_eos=wanted.ignore_eos,
            forced=self._known_tokens(forced),
        )
        return Task(prompt, sampling)

    def pieces(self, task: Task) -> Iterator[Piece | None]:
        return complete(self.policy, self.tokenizer, task)

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of an answer; the token that ends it has none."""
        if tokens and tokens[-1] in self.policy.end_tokens:
            tokens = tokens[:-1]
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=skip_special_tokens)
        return text

    def _with_features(self, token_ids: Sequence[int], features: Features) -> Prompt:
        """Stricter than vLLM, which takes any placeholders that lie within the prompt and scores something else."""
        packed = (features.kwargs_data or {}).get("image", [])
        places = features.mm_placeholders.get("image", [])
        if len(packed) != len(places):
            raise BadRequest(f"{len(packed)} pictures in kwargs_data for {len(places)} mm_placeholders")
        if any(place.offset + place.length > len(token_ids) for place in places):
            raise BadRequest("mm_placeholders must remain within the token_ids sequence")
        pictures = [self._pictures.unpack(one or "") for one in packed]
        spans = tuple(Span(place.offset, place.length) for place in places)
        if any(span.length != picture.tokens for span, picture in zip(spans, pictures, strict=True)):
            raise BadRequest("mm_placeholders do not have the lengths of their pictures")
        pad = self.policy.image_pad
        if any(token_ids[at] != pad for span in spans for at in range(span.offset, span.offset + span.length)):
            raise BadRequest("mm_placeholders point at tokens that are no placeholders")
        return Prompt(list(token_ids), tuple(pictures), spans)

    def _max_tokens(self, wanted: int | None, prompt: Prompt) -> int:
        """What fits is what there is: a larger wish is cut in silence, as in vLLM, unless no prompt could fit it."""
        if wanted is not None and wanted > self.max_model_len:
            raise BadRequest(
                f"max_tokens={wanted} cannot be greater than max_model_len={self.max_model_len}. Please request fewer "
                f"output tokens. (parameter=max_tokens, value={wanted})"
            )
        room = self.max_model_len - len(prompt.token_ids)
        if room < 1:
            raise BadRequest(f"The prompt fills all {self.max_model_len} tokens of the context")
        return min(wanted or room, room)

    def _known_tokens(self, tokens: Sequence[int] | None) -> tuple[int, ...] | None:
        if tokens is None:
            return None
        for token in tokens:
            if not 0 <= token < self.policy.vocab_size:
                raise BadRequest(f"Token id {token} is out of vocabulary")
        return tuple(tokens)

    def _known_bias(self, bias: dict[int, float] | None) -> dict[int, float]:
        self._known_tokens(tuple(bias or ()))
        return bias or {}
