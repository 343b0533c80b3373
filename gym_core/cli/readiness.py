"""What must be there before servers start: the sandboxes' toolkit, and a word about keys typed on the command line."""

from typing import TYPE_CHECKING

from gym_core.cli.terminal import tell

if TYPE_CHECKING:
    from gym_core.config.blocks import CheckedConfig


def warn_of_literal_secrets(checked: "CheckedConfig") -> None:
    from gym_core.config.secrets import literal_secret_warnings

    for warning in literal_secret_warnings(checked.composed.values, checked.composed.origin, checked.secrets):
        tell(warning)


def ensure_toolkit(checked: "CheckedConfig") -> None:
    """Build the toolkit when an embedded sandbox is going to need it. Raises ConfigError, SandboxUnavailable."""
    if needs_toolkit(checked):
        from gym_core.sandbox import toolkit

        if not toolkit.is_built():
            tell("sandbox: no toolkit yet; building it once for this machine")
            toolkit.build(tell)


def needs_toolkit(checked: "CheckedConfig") -> bool:
    """Whether a server lends or opens embedded sandboxes whose block names no toolkit of its own."""
    named = {server.block.get("sandbox_provider") for server in checked.run.servers.values()}
    blocks = [block for name, block in checked.run.sandboxes.items() if name in named]
    return any("local" in block and not block["local"].get("toolkit") for block in blocks)
