"""The block `opensandbox: {...}` of a configuration."""

import ipaddress
import os
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from gym_core.types.wire import Secret, Wire

_VARIABLES = {"domain": "OPENSANDBOX_DOMAIN", "api_key": "OPENSANDBOX_API_KEY"}
"""The SDK reads others, `OPEN_SANDBOX_*`, and is told all that it would look for."""

_INNER_NAMES = (".localhost", ".local", ".internal", ".svc", ".home.arpa")


class OpenSandboxConfig(Wire):
    domain: str = Field(default="", validate_default=True)
    """Host, or host:port, of the OpenSandbox server; that of OPENSANDBOX_DOMAIN where the block says none."""
    api_key: Secret | None = None
    """That of OPENSANDBOX_API_KEY where the block says none; null for a server that asks for none."""
    protocol: Literal["http", "https"] = "http"
    """As the server is run; https for one across a network. Certificates are always verified: `SSL_CERT_FILE` names the
    authorities where they are not the usual ones."""
    image: str | None = None
    """What a sandbox runs unless its environment asks for another: one made of `sandbox_image/Dockerfile`."""
    use_server_proxy: bool = False
    """Reach sandboxes through the server: where their own addresses cannot be reached from here."""
    secure_access: bool = False
    """Let the daemon in each sandbox ask for a token. Kubernetes behind a gateway can; Docker refuses it."""
    relay_address: str | None = None
    """`ip:port` where a relay of yours listens, and nothing else does, that leads to the policy model server. Sandboxes
    may then reach this address in place of the server's own: OpenSandbox lets through addresses, never single ports."""
    uid: int = Field(default=1000, gt=0)
    """User of commands and files. The image's own must be root, who then runs the daemon: one that commands could end
    would be no sandbox's. Nothing else runs as root."""
    request_timeout_s: float = Field(default=30.0, gt=0)
    """Of one request to the server or to a sandbox's daemon, files and commands apart."""
    create_timeout_s: float = Field(default=300.0, gt=0)
    """Of one attempt at a sandbox, the pull of its image included."""
    concurrent_creates: int = Field(default=4, gt=0)
    """Sandboxes being made at once: a Docker server's random ports collide when there are many."""

    @model_validator(mode="before")
    @classmethod
    def _from_environment(cls, block: object) -> object:
        if not isinstance(block, dict):
            return block
        told = {field: value for field, name in _VARIABLES.items() if (value := os.environ.get(name))}
        return {**told, **block}

    @field_validator("domain")
    @classmethod
    def _has_no_scheme(cls, domain: str) -> str:
        if not domain:
            raise ValueError("no server is named: set it, or OPENSANDBOX_DOMAIN, to host:port, such as localhost:8080")
        if "://" in domain or "/" in domain:
            raise ValueError(f"{domain!r} is not a host or host:port; http or https is said by `protocol`")
        return domain

    @field_validator("relay_address")
    @classmethod
    def _is_an_address(cls, relay: str | None) -> str | None:
        if relay is None:
            return None
        host, _, port = relay.rpartition(":")
        try:
            address = ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
        except ValueError:
            raise ValueError("is not ip:port, such as 10.0.0.9:8000 or [fd00::9]:8000") from None
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"is not ip:port: {port!r} is no port")
        if address.is_loopback or address.is_unspecified:
            raise ValueError(f"{address} leads a sandbox to itself; give an address that sandboxes can reach")
        return relay

    @property
    def url(self) -> str:
        return f"{self.protocol}://{self.domain}"

    @property
    def shows_its_key(self) -> bool:
        """Whether the key crosses a network that strangers may share, unencrypted."""
        if self.api_key is None or self.protocol == "https":
            return False
        host = urlsplit(f"//{self.domain}").hostname or ""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:  # a name without a dot is a container's, or this network's own
            return "." in host and not host.endswith(_INNER_NAMES)
        return not address.is_private
