"""From an example to a task row: prompt to the policy, payload to the environment, pictures to the assets."""

import json
from dataclasses import dataclass

from gym_core.capture.images import make_reference, parse_data_url
from gym_core.datasets.images import PreparedImage
from gym_core.types.task import TaskData
from gym_core.types.wire import JsonObject
from resources_servers.benchmax.transcript import prompt_items

PROMPT = "prompt_messages"


class BenchmaxTask(TaskData):
    example_id: str
    split: str
    """"train" or "eval": of the class, not of the gym."""
    payload: JsonObject
    """The example's, its `prompt_messages` too."""


@dataclass(frozen=True)
class RowRules:
    taskset: str
    split: str
    max_tool_calls: int | None
    keeps_prompt_images: bool
    """Whether the payload has the prompt's pictures itself, for a class that works on them, or references."""


class RowMaker:
    """Rows of one dataset, in order. Raises ValueError naming the example."""

    def __init__(self, rules: RowRules) -> None:
        self._rules = rules
        self._seen: dict[str, int] = {}

    def row(self, example: object, index: int) -> tuple[JsonObject, list[PreparedImage]]:
        example_id, payload = self._read(example, index)
        images: dict[str, PreparedImage] = {}

        def move(url: str) -> str:
            if url not in images:
                images[url] = PreparedImage.from_bytes(parse_data_url(url), row=example_id)
            return make_reference(images[url].sha256)

        try:
            items = prompt_items(payload.get(PROMPT), move)
        except ValueError as error:
            raise ValueError(f"example {example_id!r}: {error}") from error
        if not self._rules.keeps_prompt_images:
            urls = {url: make_reference(image.sha256) for url, image in images.items()}
            payload = {**payload, PROMPT: _with_urls(payload[PROMPT], urls)}
        params: JsonObject = {"input": [item.model_dump(mode="json", exclude_none=True) for item in items]}
        if self._rules.max_tool_calls is not None:
            params["max_tool_calls"] = self._rules.max_tool_calls
        row = {
            "task_id": {"taskset": self._rules.taskset, "task_id": example_id},
            "responses_create_params": params,
            "example_id": example_id,
            "split": self._rules.split,
            "payload": payload,
        }
        return row, list(images.values())

    def _read(self, example: object, index: int) -> tuple[str, JsonObject]:
        example_id = getattr(example, "id", None)
        if not isinstance(example_id, str) or not example_id.strip():
            raise ValueError(f"example {index}: its id {example_id!r} is no text, or a blank one")
        twin = self._seen.setdefault(example_id, index)
        if twin != index:
            raise ValueError(f"examples {twin} and {index} have one id, {example_id!r}")
        try:
            payload = json.loads(json.dumps(getattr(example, "payload", None), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"example {example_id!r}: its payload is no JSON: {error}") from error
        if not isinstance(payload, dict):
            raise ValueError(f"example {example_id!r}: its payload is a {type(payload).__name__} and no object")
        return example_id, payload


def _with_urls(value: object, urls: dict[str, str]) -> object:
    """A copy of JSON with these texts in place of those."""
    if isinstance(value, str):
        return urls.get(value, value)
    if isinstance(value, list):
        return [_with_urls(item, urls) for item in value]
    if isinstance(value, dict):
        return {key: _with_urls(item, urls) for key, item in value.items()}
    return value
