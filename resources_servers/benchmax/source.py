"""Which environment class: named by import path, loaded, made, and looked at before anything is played with it."""

import hashlib
import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from gym_core.config.roots import Roots
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject, Wire

if TYPE_CHECKING:
    from benchmax.envs import BaseEnv

SHIM = Path(__file__).parent / "shim"
"""Folder of the package that stands in for `benchmax` where that is not installed."""
_CALLED = ("create_dataset", "list_tools", "run_tool", "rollout_context", "compute_reward")
_THEIRS = "benchmax"

ClassPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]


class EnvironmentSource(Wire):
    """`environment` of the server's block and of `prepare_args`: one environment, made twice of the same words."""

    class_path: ClassPath
    """`module:Class`, as Python imports it."""
    arguments: JsonObject = {}
    """Of its constructor, by keyword."""
    import_paths: list[Annotated[str, Field(min_length=1)]] = []
    """Folders in which the module and its neighbours are found: absolute, or under one of the gym's roots."""

    @property
    def module_name(self) -> str:
        return self.class_path.partition(":")[0]

    @property
    def class_name(self) -> str:
        return self.class_path.partition(":")[2]


def load_environment(source: EnvironmentSource, roots: Roots) -> "BaseEnv":
    """The environment, made. Runs the class's own code, which may take long. Raises ConfigError."""
    found = _class(source, roots)
    try:
        environment: BaseEnv = found(**source.arguments)
    except Exception as error:
        raise _refused(source, f"cannot be made with {source.arguments}: {type(error).__name__}: {error}") from error
    missing = [name for name in _CALLED if not callable(getattr(environment, name, None))]
    if missing:
        raise _refused(source, f"has no {', '.join(missing)}")
    _refuse_what_is_not_played(source, environment)
    return environment


def source_sha256(source: EnvironmentSource, roots: Roots) -> str:
    """Over the module that defines the class and the modules beside it in the import paths. Raises ConfigError."""
    digest = hashlib.sha256()
    own = inspect.getsourcefile(_class(source, roots))
    folders = _folders(source, roots)
    beside = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    for path in dict.fromkeys([*([Path(own)] if own else []), *beside]):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def base_module() -> ModuleType:
    """`benchmax.envs`: the installed package's, or the stand-in's."""
    # At the end of the path: what is installed goes first.
    if str(SHIM) not in sys.path:
        sys.path.append(str(SHIM))
    return importlib.import_module(f"{_THEIRS}.envs")


def overrides(environment: object, hook: str) -> bool:
    """Whether a class of the author's defines the hook, and not only the base."""
    owner = next((base for base in type(environment).__mro__ if hook in vars(base)), None)
    return owner is not None and owner.__module__.partition(".")[0] != _THEIRS


def _class(source: EnvironmentSource, roots: Roots) -> type:
    base_module()
    for folder in reversed(_folders(source, roots)):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        found = getattr(importlib.import_module(source.module_name), source.class_name)
    except ImportError as error:
        advice = f" (the stand-in has no such part: install {_THEIRS})" if _THEIRS in str(error) else ""
        raise _refused(
            source, f"cannot be imported: {error}{advice}; import_paths are {source.import_paths}"
        ) from error
    except Exception as error:
        raise _refused(source, f"cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, type):
        raise _refused(source, "is no class")
    return found


def _folders(source: EnvironmentSource, roots: Roots) -> list[Path]:
    found = [(name, path if (path := Path(name)).is_absolute() else roots.find(name)) for name in source.import_paths]
    missing = [name for name, path in found if path is None or not path.is_dir()]
    if missing:
        raise _refused(source, f"import_paths: {', '.join(map(repr, missing))}: no such folder")
    return [path.resolve() for _, path in found if path is not None]


def _refuse_what_is_not_played(source: EnvironmentSource, environment: object) -> None:
    """Better no run than one with half of its rewards."""
    if overrides(environment, "run_rollout"):
        raise _refused(
            source, "plays its own rollouts (run_rollout): only classes that leave the loop to their base run"
        )
    limits = {name: getattr(environment, name, None) for name in ("max_turns", "max_tool_calls")}
    for name, least in (("max_turns", 1), ("max_tool_calls", 0)):
        value = limits[name]
        if value is not None and (type(value) is not int or value < least):
            raise _refused(source, f"{name}: {value!r} is neither None nor a whole number from {least}")
    if limits["max_turns"] is None:
        raise _refused(source, "max_turns is None: set it in the class, or by `arguments`")


def _refused(source: EnvironmentSource, why: str) -> ConfigError:
    return ConfigError(f"benchmax: environment {source.class_path!r} {why}"[:2000])
