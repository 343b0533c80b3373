"""From the words of a config to what a sandbox may reach."""

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

from gym_core.errors import ConfigError
from gym_core.sandbox.contract import ModelOnly, NetworkPolicy, NoNetwork

_DEFAULT_PORT = 80


def network_policy(access: Literal["none", "model_only"], model_url: str | None = None) -> NetworkPolicy:
    """`model_url` is the policy model server's as the host dials it. Raises ConfigError.

    The host must be a literal address: a name could mean another one by the time it is dialled.
    """
    if access == "none":
        return NoNetwork()
    if model_url is None:
        raise ConfigError(
            "sandbox_network_access: model_only needs `sandbox_model_server`, the one server to be reached"
        )
    where = f"sandbox_network_access: model_only: model server {model_url!r}"
    try:
        parts = urlsplit(model_url)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORT
    except ValueError as error:
        raise ConfigError(f"{where}: not a URL: {error}") from error
    if parts.scheme != "http":
        raise ConfigError(f"{where}: is not http; the one server to be reached is the gym's own proxy")
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise ConfigError(f"{where}: {host!r} is not a literal IP address; give one, such as 127.0.0.1") from error
    if address.is_unspecified or address.is_multicast:
        raise ConfigError(f"{where}: {host!r} is an address to listen on, not one to dial")
    return ModelOnly(host=str(address), port=port)
