"""Where things lie: the folders of each server type, and the roots under which relative names are looked up."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gym_core.config.nearest import hint
from gym_core.errors import ConfigError

INSTALL_DIR = Path(__file__).resolve().parents[2]
EXTRA_ROOTS_VARIABLE = "GYM_EXTRA_ROOTS"
"""More roots, separated as in PATH."""

DESCRIPTION_CHARACTERS = 120
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


class ServerType(StrEnum):
    RESOURCES = "resources_servers"
    AGENT = "agent_servers"
    MODEL = "model_servers"
    ENVIRONMENT = "environment_servers"
    """Not a process: the head server runs it."""


TYPE_ALIASES = {"responses_api_agents": ServerType.AGENT, "responses_api_models": ServerType.MODEL}
"""NeMo Gym's words, accepted everywhere ours are."""

TYPE_WORDS: dict[str, ServerType] = {word.value: word for word in ServerType} | TYPE_ALIASES


@dataclass(frozen=True)
class Roots:
    """Folders that hold `benchmarks/`, `agent_servers/` and so on, in order of preference."""

    paths: tuple[Path, ...]

    def find(self, relative: str) -> Path | None:
        """The first existing file or folder of this relative path."""
        return next((root / relative for root in self.paths if (root / relative).exists()), None)

    def names_in(self, folder: str) -> list[str]:
        """Names of the folders in `folder` of any root, sorted."""
        found = {
            entry.name
            for root in self.paths
            if (root / folder).is_dir()
            for entry in (root / folder).iterdir()
            if entry.is_dir() and not entry.name.startswith((".", "_"))
        }
        return sorted(found)

    def label(self, path: Path) -> str:
        """A path as people know it: relative to its root, else as it is."""
        inside = [root for root in self.paths if path.is_relative_to(root)]
        return str(path.relative_to(max(inside, key=lambda root: len(root.parts)))) if inside else str(path)


def lookup_roots(search_dirs: Sequence[str] = (), *, environ: Mapping[str, str] | None = None) -> Roots:
    """`--search-dir`s, then GYM_EXTRA_ROOTS, the working folder, the install folder. Raises ConfigError."""
    extra = (os.environ if environ is None else environ).get(EXTRA_ROOTS_VARIABLE, "")
    asked = [(item, "--search-dir") for item in search_dirs]
    asked += [(item, EXTRA_ROOTS_VARIABLE) for item in extra.split(os.pathsep) if item]
    missing = [f"config: {source} {item!r} is not a folder" for item, source in asked if not Path(item).is_dir()]
    if missing:
        raise ConfigError(missing)
    paths = [Path(item).resolve() for item, _ in asked] + [Path.cwd(), INSTALL_DIR]
    return Roots(tuple(dict.fromkeys(paths)))


def find_config(name: str, roots: Roots, *, beside: Path | None = None) -> Path:
    """The file that a `config_paths` entry or `--config` means. Raises ConfigError with the nearest known file.

    `./` and `../` start at the folder of the including file; NeMo Gym's folder names are found under ours.
    """
    path = Path(name).expanduser()
    if beside is not None and name.startswith(("./", "../")):
        path = beside.parent / path
    found = path if path.is_absolute() else roots.find(_own_folder(name))
    if found is None or not found.is_file():
        raise ConfigError(f"config: no file {name!r}{hint(_own_folder(name), _config_files(roots))}")
    return found.resolve()


def benchmark_config(name: str, roots: Roots) -> Path:
    return _named(f"benchmarks/{name}/config.yaml", "benchmark", name, list_benchmarks(roots), roots)


def environment_config(name: str, roots: Roots) -> Path:
    return _named(f"resources_servers/{name}/configs/{name}.yaml", "environment", name, list_environments(roots), roots)


def model_type_config(name: str, roots: Roots) -> Path:
    return _named(f"model_servers/{name}/configs/{name}.yaml", "model type", name, list_models(roots), roots)


def list_benchmarks(roots: Roots) -> list[str]:
    return [name for name in roots.names_in("benchmarks") if roots.find(f"benchmarks/{name}/config.yaml")]


def list_environments(roots: Roots) -> list[str]:
    return _with_config(ServerType.RESOURCES, roots)


def list_agents(roots: Roots) -> list[str]:
    return _with_config(ServerType.AGENT, roots)


def list_models(roots: Roots) -> list[str]:
    return _with_config(ServerType.MODEL, roots)


def description_of(folder: str, roots: Roots) -> str:
    """What a folder is for, in one line: the first sentence of its README's prose, else ""."""
    readme = roots.find(f"{folder}/README.md")
    if readme is None:
        return ""
    paragraph: list[str] = []
    for line in readme.read_text(encoding="utf-8", errors="replace").splitlines():
        is_prose = bool(line.strip()) and not line.lstrip().startswith(("#", "<", "!", "["))
        if is_prose:
            paragraph.append(line.strip())
        elif paragraph:
            break
    return _first_sentence(" ".join(paragraph))


def _first_sentence(text: str) -> str:
    """Cut at a word, with "...", where it is long."""
    sentence = _SENTENCE_END.split(text, maxsplit=1)[0]
    if len(sentence) <= DESCRIPTION_CHARACTERS:
        return sentence
    return sentence[:DESCRIPTION_CHARACTERS].rpartition(" ")[0].rstrip(" ,;:") + " ..."


def dataset_path(jsonl_fpath: str, prepare_script: str | None, roots: Roots) -> Path:
    """Where a dataset's file is, or is to be written.

    An existing file under the first root that has it; else, of the roots that can be written (an installed package
    often cannot), under the first that has the benchmark's own folder, or the prepare script, which many may share;
    else under the working folder.
    """
    path = Path(jsonl_fpath).expanduser()
    if path.is_absolute():
        return path
    by_cwd_first = (Path.cwd(), *roots.paths)
    for root in by_cwd_first:
        if (root / path).is_file():
            return root / path
    if prepare_script is not None:
        own_folder = path.parent.parent  # benchmarks/NAME of benchmarks/NAME/data/FILE
        writable = [root for root in by_cwd_first if os.access(root, os.W_OK)]
        homes = [root for root in writable if len(own_folder.parts) > 1 and (root / own_folder).is_dir()]
        homes += [root for root in writable if (root / prepare_script).is_file()]
        if homes:
            return homes[0] / path
    return Path.cwd() / path


def _with_config(kind: ServerType, roots: Roots) -> list[str]:
    return [name for name in roots.names_in(kind) if roots.find(f"{kind}/{name}/configs/{name}.yaml")]


def _named(relative: str, noun: str, name: str, known: list[str], roots: Roots) -> Path:
    found = roots.find(relative) if name in known else None
    if found is None:
        raise ConfigError(f"config: no {noun} {name!r}{hint(name, known)}")
    return found.resolve()


def _own_folder(name: str) -> str:
    first, slash, rest = name.partition("/")
    return f"{TYPE_ALIASES[first]}{slash}{rest}" if first in TYPE_ALIASES else name


def _config_files(roots: Roots) -> list[str]:
    patterns = ("benchmarks/*/*.yaml", "*_servers/*/configs/*.yaml", "*.yaml")
    return [str(path.relative_to(root)) for root in roots.paths for pattern in patterns for path in root.glob(pattern)]
