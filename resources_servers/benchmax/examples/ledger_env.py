"""Ledger: what some people owe together is to be found out by looking each of them up. Text alone.

Written as for benchmax, and played here as it is.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmax.envs.base import BaseEnv, BaseRollout, JsonRow, Tool
from benchmax.envs.dataset import Dataset
from benchmax.envs.identity import canonical_example_id
from benchmax.envs.shared_types import DatasetSplit, Example, RewardMap
from benchmax.rewards import extract_completion_text

NAMES = ("Ada", "Bela", "Chen", "Dora", "Emil", "Farid", "Gita", "Hana")


class LedgerEnv(BaseEnv):
    max_turns = 8
    max_tool_calls = 12

    def __init__(self, *, num_examples: int = 24, seed: int = 0) -> None:
        super().__init__()
        self._num_examples = num_examples
        self._seed = seed
        self._ledgers: dict[str, dict[str, int]] = {}

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[JsonRow]:
        count = min(self._num_examples, max_examples or self._num_examples)
        return Dataset([self._example(split, index) for index in range(count)])

    def _example(self, split: str, index: int) -> Example[JsonRow]:
        rng = random.Random(f"ledger/{self._seed}/{split}/{index}")
        ledger = {name: rng.randint(1, 99) for name in NAMES}
        asked = rng.sample(NAMES, rng.randint(2, 4))
        question = (
            f"The ledger says what people owe, one by one. What do {', '.join(asked)} owe together? Look each of them "
            "up with look_up, then answer with the sum in the form \\boxed{sum}."
        )
        payload = {
            "prompt_messages": [{"role": "user", "content": question}],
            "ledger": ledger,
            "asked": asked,
            "answer": sum(ledger[name] for name in asked),
        }
        return Example(id=canonical_example_id(payload), payload=payload)

    async def list_tools(self) -> list[Tool]:
        function = {
            "name": "look_up",
            "description": "What one person owes.",
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        }
        return [{"type": "function", "function": function}]

    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[JsonRow]) -> AsyncIterator[None]:
        self._ledgers[rollout_id] = example.payload["ledger"]
        try:
            yield
        finally:
            del self._ledgers[rollout_id]

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:  # Any: as the base has it
        name = tool_args["name"]
        owes = self._ledgers[rollout_id].get(name)
        return f"Nobody is called {name!r}." if owes is None else {"name": name, "owes": owes}

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        """The answer counts for most; looking up no more than was asked for a little, and only with it."""
        is_right = f"\\boxed{{{rollout.example_args['answer']}}}" in extract_completion_text(rollout.messages)
        calls = sum(message["role"] == "tool" for message in rollout.messages)
        is_frugal = calls <= len(rollout.example_args["asked"])
        return {"correctness": 0.8 * is_right, "frugality": 0.2 * (is_right and is_frugal)}
