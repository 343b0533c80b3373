"""Dot memory: pictures with dots come one after the other, and the numbers of dots are to be recalled in order.

Written as for benchmax, and played here as it is: the first picture is in the prompt, a tool shows the next ones.
"""

import base64
import io
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, JsonRow, RewardMap, Tool
from PIL import Image, ImageDraw

CELLS, CELL_PX = 4, 28
NUMBERS = re.compile(r"\d+")


class DotMemoryEnv(BaseEnv):
    def __init__(self, *, num_examples: int = 24, num_pictures: int = 3, seed: int = 0, max_turns: int = 6) -> None:
        super().__init__(max_turns=max_turns, max_tool_calls=num_pictures)
        self._num_examples = num_examples
        self._num_pictures = num_pictures
        self._seed = seed
        self._shown: dict[str, int] = {}
        self._counts: dict[str, list[int]] = {}

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[JsonRow]:
        count = min(self._num_examples, max_examples or self._num_examples)
        return Dataset([self._example(split, index) for index in range(count)])

    def _example(self, split: str, index: int) -> Example[JsonRow]:
        rng = random.Random(f"dots/{self._seed}/{split}/{index}")
        counts = [rng.randint(1, CELLS * CELLS) for _ in range(self._num_pictures)]
        question = (
            f"There are {self._num_pictures} pictures with black dots; this is the first. Call see_next_picture for "
            "each of the others, and remember how many dots each one has. Then answer with the numbers, in the order "
            "of the pictures, in the form \\boxed{number, number, number}."
        )
        content = [
            {"type": "image_url", "image_url": {"url": picture_url(counts[0], f"{split}/{index}/0")}},
            {"type": "text", "text": question},
        ]
        payload = {
            "prompt_messages": [
                {"role": "system", "content": "You look closely and count twice."},
                {"role": "user", "content": content},
            ],
            "counts": counts,
            "name": f"{split}/{index}",
        }
        return Example(id=f"{split}-{self._seed}-{index}", payload=payload)

    async def list_tools(self) -> list[Tool]:
        function = {
            "name": "see_next_picture",
            "description": "Shows the next picture.",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        }
        return [{"type": "function", "function": function}]

    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[JsonRow]) -> AsyncIterator[None]:
        self._shown[rollout_id] = 1
        self._counts[rollout_id] = example.payload["counts"]
        try:
            yield
        finally:
            del self._shown[rollout_id], self._counts[rollout_id]

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:  # Any: as the base has it
        index, counts = self._shown[rollout_id], self._counts[rollout_id]
        if index == len(counts):
            return "There is no picture left."
        self._shown[rollout_id] += 1
        return [
            {"type": "text", "text": f"Picture {index + 1} of {len(counts)}."},
            {"type": "image_url", "image_url": {"url": picture_url(counts[index], f"{index}/{counts}")}},
        ]

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        counts = rollout.example_args["counts"]
        said = boxed_numbers(rollout.messages)
        in_place = sum(a == b for a, b in zip(said, counts, strict=False)) / len(counts)
        return {"correctness": float(said == counts), "in_place": in_place}


def boxed_numbers(messages: list[dict[str, Any]]) -> list[int]:
    """Of the last message, when it is the assistant's."""
    last = messages[-1]
    if last["role"] != "assistant" or not isinstance(last["content"], str):
        return []
    _, box, inside = last["content"].rpartition("\\boxed{")
    return [int(number) for number in NUMBERS.findall(inside.partition("}")[0])] if box else []


def picture_url(count: int, seed: str) -> str:
    """A white square with `count` dots in cells of its own, as a `data:` URL."""
    side = CELLS * CELL_PX
    picture = Image.new("RGB", (side, side), "white")
    draw = ImageDraw.Draw(picture)
    for cell in random.Random(f"picture/{seed}").sample(range(CELLS * CELLS), count):
        x, y = cell % CELLS * CELL_PX, cell // CELLS * CELL_PX
        draw.ellipse((x + 5, y + 5, x + CELL_PX - 6, y + CELL_PX - 6), fill="black")
    png = io.BytesIO()
    picture.save(png, "PNG")
    return f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
