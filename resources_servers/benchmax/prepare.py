"""Write the rows of an environment class's own dataset: what its `create_dataset` gives.

Any benchmark names this script and says in `prepare_args` which class it is.
"""

import asyncio
import inspect
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from pydantic import Field

from gym_core.config.roots import Roots, lookup_roots
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.manifest import manifest_path
from gym_core.datasets.prepare_args import read_prepare_args
from gym_core.datasets.prepared import write_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject, Wire
from resources_servers.benchmax.attempt import awaited
from resources_servers.benchmax.rows import RowMaker, RowRules
from resources_servers.benchmax.source import EnvironmentSource, load_environment, source_sha256


class PrepareArgs(Wire):
    """`prepare_args` of a benchmark's config."""

    environment: EnvironmentSource
    """The same as in the server's block."""
    split: Literal["train", "eval"] = "eval"
    """The class's word for its data."""
    base_dir: str | None = None
    """Where the class finds its files: a folder, absolute or under one of the gym's roots; None is the data folder."""
    max_examples: int | None = Field(default=None, gt=0)
    """The first so many; None takes all."""
    keep_prompt_images: bool = True
    """Whether the payload has the prompt's pictures as `data:` URLs, as the class made it, for hooks that work on them.
    False puts references in their place: each row of a run is smaller by that."""


def prepare(args: JsonObject, jsonl_fpath: Path) -> Path:
    """The path. Raises ConfigError for wrong arguments, ValueError naming an example that cannot be a task."""
    checked, roots = read_prepare_args(PrepareArgs, args), lookup_roots()
    environment = load_environment(checked.environment, roots)
    base_dir = _base_dir(checked, roots, jsonl_fpath)
    wanted = {} if checked.max_examples is None else {"max_examples": checked.max_examples}
    if "max_examples" not in inspect.signature(environment.create_dataset).parameters:
        wanted = {}  # of an older contract; what is too much is left out below
    examples = _apart(environment.create_dataset, checked.split, base_dir, **wanted)
    rules = RowRules(
        taskset=checked.environment.class_name,
        split=checked.split,
        max_tool_calls=environment.max_tool_calls,
        keeps_prompt_images=checked.keep_prompt_images,
    )
    count = write_dataset(_rows(examples, RowMaker(rules), checked.max_examples), jsonl_fpath)
    if not count:
        jsonl_fpath.unlink()
        raise ValueError(f"{checked.environment.class_path!r}: create_dataset gave no example of {checked.split!r}")
    source = source_sha256(checked.environment, roots)
    manifest = {"dataset": checked.environment.class_path, "split": checked.split, "rows": count, "sha256": source}
    manifest_path(jsonl_fpath).write_text(json.dumps(manifest, indent=2) + "\n")
    return jsonl_fpath


def fingerprint(args: JsonObject) -> str:
    """Names the class's code, so that another one makes the rows again."""
    return f"sha256:{source_sha256(read_prepare_args(PrepareArgs, args).environment, lookup_roots())}"


def _base_dir(args: PrepareArgs, roots: Roots, jsonl_fpath: Path) -> Path:
    if args.base_dir is None:
        jsonl_fpath.parent.mkdir(parents=True, exist_ok=True)
        return jsonl_fpath.parent
    asked = Path(args.base_dir).expanduser()
    found = asked if asked.is_absolute() else roots.find(args.base_dir)
    if found is None or not found.is_dir():
        raise ConfigError(f"config: prepare_args.base_dir: no folder {args.base_dir!r}")
    return found.resolve()


def _apart(hook: object, *args: object, **kwargs: object) -> list[object]:
    """The examples that an async hook gives, on a loop of their own: the caller's may be running."""

    async def call() -> list[object]:
        assert callable(hook)
        found = await awaited(lambda: hook(*args, **kwargs))
        return list(found)  # type: ignore[call-overload,no-any-return]  # what cannot be gone through is a TypeError

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call()).result()


def _rows(
    examples: list[object], maker: RowMaker, most: int | None
) -> Iterator[tuple[JsonObject, list[PreparedImage]]]:
    for index, example in enumerate(itertools.islice(examples, most)):
        yield maker.row(example, index)
