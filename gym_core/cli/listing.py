"""`gym list`: what there is to name, with one line each."""

import argparse
import json
from typing import TYPE_CHECKING

from gym_core.cli.terminal import printable, say, table

if TYPE_CHECKING:
    from gym_core.config.roots import Roots

KINDS = ("benchmarks", "environments", "agents", "models")


def list_command(args: argparse.Namespace) -> int:
    from gym_core.config.roots import lookup_roots

    roots = lookup_roots(args.search_dir)
    entries = [entry for kind in ((args.kind,) if args.kind else KINDS) for entry in _entries(kind, roots)]
    if args.json:
        say(json.dumps(entries, indent=2))
        return 0
    for kind in (args.kind,) if args.kind else KINDS:
        say(kind)
        found = [entry for entry in entries if entry["kind"] == kind]
        for line in table([(entry["name"], printable(entry["description"])) for entry in found]) or ["  none"]:
            say(line)
    return 0


def _entries(kind: str, roots: "Roots") -> list[dict[str, str]]:
    from gym_core.config import roots as known

    listing, folder = {
        "benchmarks": (known.list_benchmarks, "benchmarks"),
        "environments": (known.list_environments, known.ServerType.RESOURCES.value),
        "agents": (known.list_agents, known.ServerType.AGENT.value),
        "models": (known.list_models, known.ServerType.MODEL.value),
    }[kind]
    return [
        {"kind": kind, "name": name, "description": known.description_of(f"{folder}/{name}", roots)}
        for name in listing(roots)
    ]
