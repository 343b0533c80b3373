"""Environment classes as strangers write them: each does one odd thing. Named by their path, never imported by a test.

Each notes what is done with it in the file `journal`.
"""

import asyncio
import contextvars
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, Example, JsonRow, RewardMap, RolloutFailure, Tool

GATE = threading.Event()
"""What `Blocks` waits for."""
_whose: contextvars.ContextVar[str] = contextvars.ContextVar("whose", default="nobody")


class Plain(BaseEnv):
    def __init__(self, *, journal: str = "", **limits: Any) -> None:
        super().__init__(**({"max_turns": 3} | limits))
        self._journal = journal

    def note(self, what: str) -> None:
        if self._journal:
            with Path(self._journal).open("a") as file:
                file.write(what + "\n")

    async def create_dataset(self, split: Any, base_dir: Path, *, max_examples: int | None = None) -> Dataset[JsonRow]:
        return Dataset([example(str(index)) for index in range(max_examples or 3)])

    async def list_tools(self) -> list[Tool]:
        parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return [{"type": "function", "function": {"name": "double", "description": "Twice.", "parameters": parameters}}]

    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[JsonRow]) -> AsyncIterator[None]:
        self.note(f"enter {example.id}")
        _whose.set(example.id)
        try:
            yield
        finally:
            self.note(f"leave {example.id}")

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        return 2 * tool_args["n"]

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap | None:
        self.note(f"reward {rollout.termination_reason}")
        return {"right": float(rollout.messages[-1].get("content") == rollout.example_args["answer"])}

    async def aclose(self) -> None:
        self.note("closed")


def example(example_id: str, **payload: Any) -> Example[JsonRow]:
    messages = [{"role": "user", "content": f"What is twice {example_id}?"}]
    return Example(example_id, {"prompt_messages": messages, "answer": "42", **payload})


class Recalls(Plain):
    """Its hooks see what the context set."""

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        return f"for {_whose.get()}"

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        return {"right": float(_whose.get() == "e1")}


class SyncTool(Plain):
    def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:  # type: ignore[override]  # the point
        return "at once"


class SyncTools(Plain):
    def list_tools(self) -> Any:
        return []


class SyncDataset(Plain):
    def create_dataset(self, split: Any, base_dir: Path) -> Any:  # type: ignore[override]  # the point
        return []


class NoTools(Plain):
    async def list_tools(self) -> list[Tool]:
        return []


class OddTools(Plain):
    async def list_tools(self) -> Any:
        return [{"type": "function", "function": {"name": "no name!"}}]


class Gives(Plain):
    """A tool that gives what it was made with."""

    def __init__(self, *, result: Any = None, repeat: int = 1, journal: str = "") -> None:
        super().__init__(journal=journal)
        self._result = result * repeat if isinstance(result, str) else result

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        return self._result


class Rewards(Plain):
    """A reward that is what it was made with; `nan` and `inf` by their names."""

    def __init__(self, *, rewards: Any = None, journal: str = "") -> None:
        super().__init__(journal=journal)
        self._rewards = rewards

    async def compute_reward(self, rollout: BaseRollout) -> Any:
        if isinstance(self._rewards, Mapping):
            return {name: float(x) if x in ("nan", "inf") else x for name, x in self._rewards.items()}
        return self._rewards


class Hangs(Plain):
    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        await asyncio.Event().wait()


class HangsOn(Plain):
    """Does not let itself be cancelled."""

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        for _ in range(3):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.note("not yet")


class Blocks(Plain):
    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        GATE.wait(20)


class Exits(Plain):
    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        sys.exit(3)


class Cancels(Plain):
    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        raise asyncio.CancelledError


class Fails(Plain):
    """Raises a failure by the word that it was made with: `at` "tool" or "reward"."""

    def __init__(self, *, word: str, at: str, journal: str = "") -> None:
        super().__init__(journal=journal)
        self._word = word
        self._at = at

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        if self._at == "tool":
            raise RolloutFailure(self._word, "it is so")
        return "fine"

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap | None:
        if self._at == "reward":
            raise RolloutFailure(self._word, "it is so")
        return await super().compute_reward(rollout)


class RaisesAtEntry(Plain):
    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[JsonRow]) -> AsyncIterator[None]:
        raise OSError("no room")
        yield


class HangsAtEntry(Plain):
    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[JsonRow]) -> AsyncIterator[None]:
        try:
            await asyncio.Event().wait()
            yield
        finally:
            self.note("given up")


class RaisesAtExit(Plain):
    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[JsonRow]) -> AsyncIterator[None]:
        yield
        self.note("leaving")
        raise OSError("cannot tidy up")


class Grouped(Plain):
    """A rank of 1 for each sibling with a lower reward, or what it was made to give."""

    def __init__(self, *, gives: str = "ranks", journal: str = "") -> None:
        super().__init__(journal=journal)
        self._gives = gives

    async def compute_group_rewards(self, rollouts: Sequence[BaseRollout]) -> Any:
        rewards = {rollout.rollout_id: sum((rollout.rewards or {}).values()) for rollout in rollouts}
        ranks = {id_: float(sum(other < own for other in rewards.values())) for id_, own in rewards.items()}
        match self._gives:
            case "others":
                return {"somebody": {"rank": 1.0}}
            case "own names":
                return {id_: {"right": rank} for id_, rank in ranks.items()}
            case "nan":
                return {id_: {"rank": float("nan")} for id_ in ranks}
            case "too much":
                return {id_: {"rank": 10.5} for id_ in ranks}
            case "a list":
                return list(ranks)
            case "none":
                return None
        return {id_: {"rank": rank} for id_, rank in ranks.items()}


class StashesById(Plain):
    """Notes its rollouts by id, and looks them up for the group."""

    def __init__(self, *, journal: str = "") -> None:
        super().__init__(journal=journal)
        self._met: dict[str, float] = {}

    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[JsonRow]) -> AsyncIterator[None]:
        self._met[rollout_id] = 0.0
        yield

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        self._met[rollout.rollout_id] += 1
        return {"right": 1.0}

    async def compute_group_rewards(self, rollouts: Sequence[BaseRollout]) -> Any:
        return {rollout.rollout_id: {"met": self._met[rollout.rollout_id]} for rollout in rollouts}


class TakesPoints(Plain):
    """A tool with a nested schema, that takes it for granted."""

    async def list_tools(self) -> list[Tool]:
        points = {"type": "array", "items": {"type": "number"}}
        parameters = {"type": "object", "properties": {"points": points}, "required": ["points"]}
        return [{"type": "function", "function": {"name": "double", "description": "All.", "parameters": parameters}}]

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        return sum(2.0 * float(point) for point in tool_args["points"])


class TakesMore(Plain):
    """A tool whose schema allows arguments that it does not name."""

    async def list_tools(self) -> list[Tool]:
        parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": True}
        return [{"type": "function", "function": {"name": "double", "description": "All.", "parameters": parameters}}]


class OwnLoop(Plain):
    async def run_rollout(self, request: Any) -> Any:
        raise NotImplementedError


class NotMade(Plain):
    def __init__(self, **_: Any) -> None:
        raise KeyError("API_KEY")


class Examples(Plain):
    """A dataset of what it was made with: (id, payload) pairs, by an older contract without `max_examples`."""

    def __init__(self, *, pairs: list[list[Any]], journal: str = "") -> None:
        super().__init__(journal=journal)
        self._pairs = pairs

    async def create_dataset(self, split: Any, base_dir: Path) -> Dataset[JsonRow]:  # type: ignore[override]  # as said
        self.note(f"{split} {base_dir}")
        return Dataset([Example(*pair) for pair in self._pairs])


NOT_A_CLASS = 3
