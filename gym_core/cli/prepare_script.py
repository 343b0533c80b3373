"""A benchmark's prepare script: loaded by path, asked for its data and for what that depends on."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from gym_core.errors import ConfigError, EpisodeError, FailureKind
from gym_core.types.wire import JsonObject

_CODE_ENDINGS = (".py", ".txt")


class PrepareScript:
    """One script. It is run no earlier than something is asked of it that needs that.

    What it raises leaves as EpisodeError naming the dataset; ConfigError and EpisodeError pass.
    """

    def __init__(self, path: Path, *, dataset: str) -> None:
        self.path = path
        self._dataset = dataset

    def prepare(self, args: JsonObject, jsonl_fpath: Path) -> object:
        """What its `prepare(args, jsonl_fpath)` returns: the path, if the script does as agreed."""
        return self._call("prepare", args, jsonl_fpath)

    def fingerprint(self, args: JsonObject) -> str:
        """What its `fingerprint(args)` says; "" when it defines none, or does not mind what was used before."""
        if b"def fingerprint(" not in self.path.read_bytes():
            return ""  # seen without loading it, which may take long
        said = self._call("fingerprint", args)
        if not isinstance(said, str):
            raise ConfigError(f"prepare: {self._dataset}: fingerprint of {self.path} is no text")
        return said

    def code_sha256(self) -> str:
        """Over the `.py` and `.txt` files of its folder and of the packages within, names and contents."""
        digest = hashlib.sha256()
        for path in _code_files(self.path.parent):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(self.path.parent)}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    def _call(self, function: str, *args: object) -> object:
        module = self._loaded()
        if not callable(getattr(module, function, None)):
            wanted = {"prepare": "prepare(args, jsonl_fpath)", "fingerprint": "fingerprint(args)"}[function]
            raise ConfigError(f"prepare: {self._dataset}: {self.path} defines no {wanted}")
        try:
            return getattr(module, function)(*args)
        except (ConfigError, EpisodeError):
            raise
        except Exception as cause:
            what = f"prepare: {self._dataset}: {type(cause).__name__}: {cause}"
            raise EpisodeError(what, kind=FailureKind.INTERNAL) from cause

    def _loaded(self) -> ModuleType:
        identity = str(self.path).encode() + b"\0" + self.path.read_bytes()
        name = f"prepare_{hashlib.sha256(identity).hexdigest()[:12]}"
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, self.path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"prepare: {self.path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # classes defined in it are looked up there
        try:
            spec.loader.exec_module(module)
        except Exception as cause:
            del sys.modules[name]
            raise ConfigError(f"prepare: {self.path} cannot be loaded: {type(cause).__name__}: {cause}") from cause
        return module


def _code_files(folder: Path) -> list[Path]:
    """In the folder and in its packages: a folder without `__init__.py` (data, say) is not looked into."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in _CODE_ENDINGS:
            found.append(path)
        elif (path / "__init__.py").is_file() and not path.is_symlink():
            found += _code_files(path)
    return found
