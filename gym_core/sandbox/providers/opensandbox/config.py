"""The block `opensandbox: {...}` of a configuration."""

from typing import Literal

from pydantic import Field, field_validator

from gym_core.types.wire import Secret, Wire


class OpenSandboxConfig(Wire):
    domain: str
    """Host, or host:port, of the OpenSandbox server. Usually `${oc.env:OPENSANDBOX_DOMAIN,localhost:8080}`."""
    api_key: Secret | None = None
    """Usually `${oc.env:OPENSANDBOX_API_KEY,null}`; None for a server that asks for none."""
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

    @field_validator("domain")
    @classmethod
    def _has_no_scheme(cls, domain: str) -> str:
        if "://" in domain or "/" in domain or not domain:
            raise ValueError(f"{domain!r} is not a host or host:port; http or https is said by `protocol`")
        return domain
