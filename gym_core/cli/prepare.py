"""`gym eval prepare`: the data files of a benchmark, made by its own script and made again when that changes."""

import argparse
import hashlib
import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from gym_core.cli.selection import Selection
from gym_core.cli.terminal import duration, say, tell
from gym_core.errors import ConfigError, EpisodeError, FailureKind

if TYPE_CHECKING:
    from gym_core.config.datasets import SelectedDataset


def prepare_command(args: argparse.Namespace) -> int:
    from gym_core.config.datasets import read_environments, select_datasets

    composed = Selection.of(args).compose()
    environments = read_environments(composed)
    split, environment = composed.values.get("split"), composed.values.get("environment")
    for selected in select_datasets(environments, composed, split=split, environment=environment):
        if args.force or not is_up_to_date(selected):
            prepare_dataset(selected)
        else:
            tell(f"prepare: {selected.dataset.name}: up to date; --force prepares it again")
        say(str(selected.path))
    return 0


def ensure_prepared(selected: "SelectedDataset", *, reuse: bool) -> None:
    """Before a run. With `reuse` a file that is there is taken as it is; without, one that its script would change is
    made again."""
    name = selected.dataset.name
    if reuse and selected.path.is_file():
        if selected.script is not None and _stamp_path(selected).is_file() and not is_up_to_date(selected):
            tell(f"prepare: {name}: reusing {selected.path}, though its script or prepare_args have changed since")
        return
    if not selected.path.is_file():
        tell(f"prepare: {name}: {selected.path} does not exist yet")
    if not is_up_to_date(selected):
        prepare_dataset(selected)


def is_up_to_date(selected: "SelectedDataset") -> bool:
    """Whether the file is there and came from this script with these arguments, or from elsewhere."""
    if not selected.path.is_file():
        return False
    stamp = _stamp_path(selected)
    return selected.script is None or not stamp.is_file() or stamp.read_text(encoding="utf-8") == _stamp(selected)


def prepare_dataset(selected: "SelectedDataset") -> None:
    """Run its script: `prepare(args, jsonl_fpath)` returns the path it wrote. Raises ConfigError, EpisodeError."""
    name = selected.dataset.name
    if selected.script is None:
        raise ConfigError(f"prepare: {name}: {selected.path} does not exist and no prepare_script makes it")
    tell(f"prepare: {name}: running {selected.script}")
    start = time.monotonic()
    selected.path.parent.mkdir(parents=True, exist_ok=True)
    module = _load(selected.script)
    if not callable(getattr(module, "prepare", None)):
        raise ConfigError(f"prepare: {name}: {selected.script} defines no prepare(args, jsonl_fpath)")
    try:
        written = module.prepare(dict(selected.dataset.prepare_args), selected.path)
    except (ConfigError, EpisodeError):
        raise
    except Exception as cause:
        raise EpisodeError(f"prepare: {name}: {type(cause).__name__}: {cause}", kind=FailureKind.INTERNAL) from cause
    if written != selected.path or not selected.path.is_file():
        raise ConfigError(f"prepare: {name}: its script wrote {written!s}, not {selected.path}")
    _stamp_path(selected).write_text(_stamp(selected), encoding="utf-8")
    rows = _count_lines(selected.path)
    tell(f"prepare: {name}: {rows} tasks in {duration(time.monotonic() - start)}")


def _load(script: Path) -> ModuleType:
    name = f"prepare_{hashlib.sha256(str(script).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise ConfigError(f"prepare: {script} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # classes defined in it are looked up there
    try:
        spec.loader.exec_module(module)
    except Exception as cause:
        raise ConfigError(f"prepare: {script} cannot be loaded: {type(cause).__name__}: {cause}") from cause
    return module


def _stamp_path(selected: "SelectedDataset") -> Path:
    return selected.path.with_name(selected.path.name + ".prepared")


def _stamp(selected: "SelectedDataset") -> str:
    """What the file was made of: the script's own text and its arguments."""
    script = selected.script.read_bytes() if selected.script else b""
    made_of = {"script_sha256": hashlib.sha256(script).hexdigest(), "prepare_args": selected.dataset.prepare_args}
    return json.dumps(made_of, sort_keys=True, indent=2) + "\n"


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
