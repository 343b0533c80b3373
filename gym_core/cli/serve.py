"""`gym serve NAME`: one server of a configuration in this process; what containers run."""

import argparse

from gym_core.cli.readiness import warn_of_literal_secrets
from gym_core.cli.selection import Selection


def serve_command(args: argparse.Namespace) -> int:
    from gym_core.config.nearest import hint
    from gym_core.errors import ConfigError
    from gym_core.launch.child import HEAD

    checked = Selection.of(args).check()
    known = [HEAD, *checked.run.servers]
    if args.name not in known:
        raise ConfigError(f"serve: no server {args.name!r}{hint(args.name, known)}")
    warn_of_literal_secrets(checked)
    from gym_core.launch.child import serve_instance

    return serve_instance(checked, args.name, host=args.host, port=args.port)
