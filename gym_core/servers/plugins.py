"""From the names in a configuration to the classes behind them: servers and sandbox providers, found by folder."""

import importlib
from pathlib import Path
from types import ModuleType

from gym_core.config.roots import Roots, ServerType, lookup_roots
from gym_core.config.schema import ServerInstance
from gym_core.errors import ConfigError
from gym_core.servers.base import Server
from gym_core.types.wire import Wire


def server_class(server_type: ServerType, implementation: str, roots: Roots) -> type[Server[Wire]]:
    """The one `Server` subclass that `<type>/<implementation>/app.py` defines. Raises ConfigError."""
    module = _import_app(server_type, implementation, roots)
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Server) and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        names = [value.__name__ for value in found]
        raise ConfigError(f"{server_type}/{implementation}/app.py must define one Server class, it defines {names}")
    return found[0]


def block_class(server: ServerInstance, roots: Roots | None = None) -> type[Wire]:
    """The class that reads a server's block. Raises ConfigError."""
    return server_class(server.type, server.implementation, roots or lookup_roots()).config_type


def _import_app(server_type: ServerType, implementation: str, roots: Roots) -> ModuleType:
    relative = f"{server_type}/{implementation}/app.py"
    path = roots.find(relative)
    if path is None:
        known = ", ".join(roots.names_in(server_type))
        raise ConfigError(f"no {relative} under any root; there are: {known}")
    _look_in(server_type, path.parents[1])
    return importlib.import_module(f"{server_type}.{implementation}.app")


def _look_in(package: str, folder: Path) -> None:
    """Let the package's modules come from this folder too: an environment author's own, named by --search-dir."""
    places = importlib.import_module(package).__path__
    if str(folder) not in places:
        places.append(str(folder))
