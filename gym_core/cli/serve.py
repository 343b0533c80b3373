"""`gym serve NAME`: one server of a configuration in this process; what containers run."""

import argparse
import json
from dataclasses import replace

from gym_core.cli.readiness import warn_of_literal_secrets
from gym_core.cli.selection import Selection
from gym_core.errors import ConfigError


def serve_command(args: argparse.Namespace) -> int:
    checked = with_address(Selection.of(args), args.name, host=args.host, port=args.port).check()
    warn_of_literal_secrets(checked)
    from gym_core.launch.child import serve_instance

    return serve_instance(checked, args.name, host=args.host, port=args.port)


def with_address(selection: Selection, name: str, *, host: str | None, port: int | None) -> Selection:
    """The selection with `--host` and `--port` written into the server's own block. Raises ConfigError for an unknown
    name."""
    from gym_core.config.nearest import hint
    from gym_core.config.reading import HEAD, ConfigReading
    from gym_core.launch.children import HEAD as HEAD_NAME

    servers = ConfigReading(selection.compose()).run_config().servers
    paths = {HEAD_NAME: HEAD} | {server.name: server.path for server in servers.values()}
    if name not in paths:
        raise ConfigError(f"serve: no server {name!r}{hint(name, paths)}")
    given = {"host": host, "port": port}
    words = [f"++{paths[name]}.{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    return replace(selection, overrides=(*selection.overrides, *words))
