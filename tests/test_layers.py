"""Who may import whom, and one file for each outside package that would spread. Kept by reading the sources."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "gym_core"
PLUGIN_FOLDERS = ("resources_servers", "agent_servers", "model_servers", "benchmarks")

LAYERS = (
    ("types", "errors"),
    ("config", "http"),
    ("sandbox", "judging", "capture"),
    ("datasets", "image_tools", "statistics", "client"),
    ("servers",),
    ("episode",),
    ("rollout", "comparison", "export", "viewer"),
    ("launch",),
    ("cli",),
)
"""Lowest first; a module imports its own group and lower ones. `errors` and `types` share the ground floor."""

ONLY_USERS = {
    "omegaconf": {"gym_core/config/compose.py", "gym_core/config/layers.py", "gym_core/config/documents.py"},
    "docker": {"gym_core/sandbox/providers/docker/engine.py"},
    "opensandbox": {"gym_core/sandbox/providers/opensandbox/sdk.py"},
    "aiohttp": {"gym_core/http/client.py", "gym_core/http/upstream.py"},
    "pyarrow": {"gym_core/datasets/parquet.py", "gym_core/export/formats/table.py", "gym_core/export/formats/rows.py"},
}


def _modules(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.py") if "__pycache__" not in p.parts and "data" not in p.parts)


@functools.cache
def _imports(path: Path) -> tuple[str, ...]:
    """Dotted names a module imports, those inside functions too."""
    return tuple(_imported(ast.parse(path.read_text(encoding="utf-8"))))


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _layer_of(part: str) -> int | None:
    return next((i for i, names in enumerate(LAYERS) if part in names), None)


@pytest.mark.parametrize("path", _modules(CORE), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_core_module_imports_only_its_own_layer_and_lower_ones(path: Path) -> None:
    own = path.relative_to(CORE).parts[0].removesuffix(".py")
    layer = _layer_of(own)
    if layer is None:
        assert own == "__init__", f"{own!r} has no layer: give it one in LAYERS"
        return
    for name in _imports(path):
        parts = name.split(".")
        if parts[0] == "gym_core" and len(parts) > 1:
            other = _layer_of(parts[1])
            assert other is not None, f"imports {name}, which has no layer"
            assert other <= layer, f"{own} imports upwards: {name}"


@pytest.mark.parametrize("path", _modules(CORE), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_core_never_names_a_plugin(path: Path) -> None:
    assert not [name for name in _imports(path) if name.split(".")[0] in PLUGIN_FOLDERS]


@pytest.mark.parametrize(
    "path", [p for f in PLUGIN_FOLDERS for p in _modules(ROOT / f)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_plugins_import_the_core_and_themselves_but_never_each_other(path: Path) -> None:
    own = ".".join(path.relative_to(ROOT).parts[:2])
    for name in _imports(path):
        if name.split(".")[0] in PLUGIN_FOLDERS:
            assert name.startswith(own + ".") or name == own, f"{own} imports {name}"


@pytest.mark.parametrize("package", sorted(ONLY_USERS))
def test_an_outside_package_has_one_place(package: str) -> None:
    users = {
        str(path.relative_to(ROOT))
        for folder in ("gym_core", *PLUGIN_FOLDERS)
        for path in _modules(ROOT / folder)
        if any(name.split(".")[0] == package for name in _imports(path))
    }
    assert users <= ONLY_USERS[package]


def test_nobody_imports_another_modules_underscore_name() -> None:
    for folder in ("gym_core", *PLUGIN_FOLDERS):
        for path in _modules(ROOT / folder):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] != "__future__":
                    private = [a.name for a in node.names if a.name.startswith("_") and not a.name.startswith("__")]
                    assert not private, f"{path}: {private}"
