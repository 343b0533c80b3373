"""What a configuration may not say: NeMo Gym's directives and OmegaConf's other resolvers, each refused by name."""

import re
from collections.abc import Iterator, Sequence

from gym_core.types.wire import JsonObject

_DIRECTIVES = ("_inherit_from", "_copy", "_delete_key", "inherit_from", "copy")
_RESOLVERS = ("oc.env", "oc.select")
_RESOLVER = re.compile(r"\$\{\s*([A-Za-z_][\w.]*)\s*:")


def refused_directives(values: JsonObject, texts: Sequence[str]) -> list[str]:
    """A problem for each directive among the keys and each resolver in the interpolated texts that we do not have."""
    advice = "is not supported; include the file by config_paths and override what differs"
    problems = [f"config: {path}: {path.rpartition('.')[2]} {advice}" for path in _directive_keys(values, "")]
    for name in dict.fromkeys(name for text in texts for name in _RESOLVER.findall(text)):
        if name in _DIRECTIVES:
            problems.append(f"config: ${{{name}:...}} {advice}")
        elif name not in _RESOLVERS:
            problems.append(f"config: ${{{name}:...}} is not supported; known: {', '.join(_RESOLVERS)}, and ${{key}}")
    return problems


def _directive_keys(values: JsonObject, above: str) -> Iterator[str]:
    for key, value in values.items():
        path = f"{above}.{key}" if above else key
        if key in _DIRECTIVES and key.startswith("_"):
            yield path
        if isinstance(value, dict):
            yield from _directive_keys(value, path)
