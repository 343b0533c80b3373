"""The base of environments that are played by a loop of model and tools; that loop is the gym's."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.envs.base.dataset import JsonRow
from benchmax.envs.base.openai_types import Messages, Tool
from benchmax.envs.dataset import Dataset
from benchmax.envs.environment import Environment
from benchmax.envs.shared_types import DatasetSplit, Example, RewardMap, RolloutAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRollout(RolloutAttempt):
    """A rollout as the reward hooks see it."""

    messages: Messages
    example_args: Mapping[str, Any]  # Any: what the example's payload holds beside its messages
    split: DatasetSplit = "train"


class BaseEnv(Environment[JsonRow, BaseRollout]):
    """Payloads are JSON objects with `prompt_messages`; what else they hold is for the reward hooks."""

    max_turns: int | None = None
    max_tool_calls: int | None = None

    def __init__(self, *, max_turns: int | None = None, max_tool_calls: int | None = None) -> None:
        super().__init__()
        if max_turns is not None:
            self.max_turns = max_turns
        if max_tool_calls is not None:
            self.max_tool_calls = max_tool_calls

    @abstractmethod
    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[JsonRow]:
        """The examples of a split, in an order that stays."""

    async def list_tools(self) -> list[Tool]:
        """OpenAI function tools."""
        return []

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:  # Any: as the model wrote them
        raise ValueError(f"no tool {tool_name!r}")

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap | None:
        return None

    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[JsonRow]) -> AsyncIterator[None]:
        """Hold what one rollout needs; the one hook that is told both id and example."""
        yield
