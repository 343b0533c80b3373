"""Sessions as token ids: the shapes that agents make, in the skewed distribution that text has. No text."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from gym_core.capture.recorder import CallRecord, CallTokens, Ids

_VOCABULARY = 151_000


@dataclass
class TokenSource:
    seed: int = 0
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def ids(self, n: int) -> Ids:
        return np.minimum((self._rng.zipf(1.25, n) * 37) % _VOCABULARY, _VOCABULARY - 1).astype(np.int32)

    def sampled(self, prompt: Ids, n: int) -> CallTokens:
        logprobs = -(np.abs(self._rng.normal(0, 0.6, n)).astype(np.float32) ** 2)
        return CallTokens(prompt, self.ids(n), logprobs.astype(np.float32))

    def chain(self, n_calls: int, upto: int, *, start: Ids | None = None, n_sampled: int = 200) -> list[CallTokens]:
        """Each prompt is the one before it, what was sampled then, and something new; `upto` tokens in the end."""
        prompt = self.ids(4000) if start is None else np.concatenate([start, self.ids(500)])
        n_new = max((upto - len(prompt)) // n_calls - n_sampled, 1)
        calls = []
        for _ in range(n_calls):
            calls.append(self.sampled(prompt, n_sampled))
            prompt = np.concatenate([prompt, calls[-1].ids_S, self.ids(n_new)])
        return calls


def one_chain(source: TokenSource) -> list[CallTokens]:
    return source.chain(200, 130_000)


def with_subagents(source: TokenSource) -> list[CallTokens]:
    """A main conversation of 150 calls, and ten others of five calls each between them."""
    main = source.chain(150, 100_000)
    others = [source.chain(5, 20_000, start=main[0].prompt_ids[:3000]) for _ in range(10)]
    calls = []
    for position, call in enumerate(main):
        calls.append(call)
        other = others[position // 3 % 10]
        if position % 3 == 0 and other:
            calls.append(other.pop(0))
    return calls


def with_retries(source: TokenSource) -> list[CallTokens]:
    """Every fifth prompt is sent twice; the conversation goes on with the second answer."""
    calls = []
    for position, call in enumerate(source.chain(166, 100_000)):
        calls += [source.sampled(call.prompt_ids, 150)] * (position % 5 == 0) + [call]
    return calls


def with_compaction(source: TokenSource) -> list[CallTokens]:
    return [call for _ in range(4) for call in source.chain(50, 100_000)]


def with_branches(source: TokenSource) -> list[CallTokens]:
    """Every call of the second half goes on from an earlier one of the first."""
    main = source.chain(100, 100_000)
    calls = list(main)
    for k in range(100):
        inner = main[k * 37 % 90]
        calls.append(source.sampled(np.concatenate([inner.prompt_ids, inner.ids_S, source.ids(1000)]), 200))
    return calls


def with_reasoning_dropped(source: TokenSource) -> list[CallTokens]:
    """No prompt holds the whole answer before it."""
    prompt, calls = source.ids(4000), []
    for _ in range(200):
        calls.append(source.sampled(prompt, 300))
        prompt = np.concatenate([prompt, calls[-1].ids_S[100:], source.ids(180)])
    return calls


SHAPES: dict[str, Callable[[TokenSource], list[CallTokens]]] = {
    "one chain to 130k": one_chain,
    "main and 10 subagents": with_subagents,
    "every 5th call retried": with_retries,
    "compaction every 50": with_compaction,
    "branches off inner calls": with_branches,
    "reasoning dropped": with_reasoning_dropped,
}


def records(calls: list[CallTokens]) -> Iterator[CallRecord]:
    """With the facts that a proxy writes, and short answers."""
    rng = np.random.default_rng(1)
    sent_at, sampling = 1_790_000_000.0, {"model": "tiny", "stream": True, "logprobs": True, "max_tokens": 32768}
    for index, tokens in enumerate(calls):
        seconds = rng.uniform(0.5, 9.0, 3).round(6).tolist()
        sent_at += sum(seconds)
        yield CallRecord(
            {
                "call_id": f"mc_{rng.bytes(16).hex()}", "session_id": "s1", "index": index, "sent_at": sent_at,
                "outcome": "answered", "sampling": sampling, "images": [], "images_added": [],
                "answer": {
                    "content": "", "reasoning": "", "finish_reason": "tool_calls", "tool_calls": [],
                    "input_tokens": len(tokens.prompt_ids), "output_tokens": len(tokens.ids_S),
                },
                "failure_kind": None, "failure_message": None, "endpoint_status": 200, "attempts": 1,
                "timings": {"queued_s": 0.0, "first_byte_s": seconds[0], "total_s": seconds[1]},
                "notes": [], "gaps": [],
            },
            [], b"", tokens,
        )  # fmt: skip


def distinct_tokens(calls: list[CallTokens]) -> int:
    """Positions that are no repetition of the beginning of an earlier call's prompt and answer."""
    total, ends = 0, [np.empty(0, np.int32)]
    for call in calls:
        n_same = 0
        for other in ends:
            n = min(len(other), len(call.prompt_ids))
            differs = other[:n] != call.prompt_ids[:n]
            n_same = max(n_same, int(differs.argmax()) if differs.any() else n)
        total += len(call.prompt_ids) - n_same + len(call.ids_S)
        ends.append(np.concatenate([call.prompt_ids, call.ids_S]))
    return total
