"""What an OpenSandbox sandbox must have been given, and what it is said to have: read back, never assumed."""

import ipaddress

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import ModelOnly, NetworkPolicy
from gym_core.sandbox.providers.opensandbox.frames import End
from gym_core.sandbox.providers.opensandbox.sdk import SDK_VERSION, EgressPolicy
from gym_core.types.session import SandboxEnforcement

_ENFORCING_MODE = "dns+nft"
"""The sidecar's other mode, `dns`, answers no names: a connection to an address passes."""

_CAP_NET_ADMIN, _CAP_NET_RAW = 12, 13
_ANY = -1


def model_address(network: NetworkPolicy, relay_address: str | None) -> NetworkPolicy:
    """Where a sandbox is to find the model server. Raises SandboxUnavailable for what none of them can mean."""
    if not isinstance(network, ModelOnly):
        return network
    if relay_address is not None:
        host, _, port = relay_address.rpartition(":")
        network = ModelOnly(host=host.strip("[]"), port=int(port))
    try:
        address = ipaddress.ip_address(network.host)
    except ValueError as error:
        raise SandboxUnavailable(f"opensandbox: model_only needs a literal address, not {network.host!r}") from error
    if address.is_loopback or address.is_unspecified:
        raise SandboxUnavailable(
            f"opensandbox: {network.host} leads a sandbox to itself; start the gym with `++use_absolute_ip=true`, so "
            "that the policy server listens on an address of this machine, or set `relay_address`"
        )
    return network


def allowed_address(network: NetworkPolicy) -> str | None:
    return network.host if isinstance(network, ModelOnly) else None


def only_port(look: End, network: NetworkPolicy) -> int | None:
    """The one TCP port that commands can be let connect to, 0 for none; None where the kernel inside cannot say so."""
    if not look.one_port:
        return None
    return network.port if isinstance(network, ModelOnly) else 0


def check_policy(found: EgressPolicy, network: NetworkPolicy) -> None:
    """Raises SandboxUnavailable unless the sidecar enforces, at the IP layer, what was asked for and no more."""
    if found.mode != _ENFORCING_MODE:
        raise SandboxUnavailable(
            f"opensandbox: the egress mode is {found.mode!r}, in which connections to addresses pass; set "
            f'`[egress] mode = "{_ENFORCING_MODE}"` in the server\'s configuration'
        )
    allowed = allowed_address(network)
    wanted = {("allow", ipaddress.ip_network(allowed))} if allowed else set()
    rules = {(action, _network(target)) for action, target in found.rules}
    if found.default != "deny" or rules != wanted:
        said = ", ".join(sorted(f"{action} {target}" for action, target in found.rules)) or "no rules"
        raise SandboxUnavailable(
            f"opensandbox: the sidecar's policy is not what was asked for: default {found.default!r}, {said}"
        )


def enforcement_of(look: End, network: NetworkPolicy, *, secure_access: bool) -> SandboxEnforcement:
    """From the kernel's own words about a command inside. Raises SandboxUnavailable for one that has powers."""
    if not look.uid:
        raise SandboxUnavailable("opensandbox: commands would be root inside, although `uid` is another")
    if not look.daemon_is_apart:
        raise SandboxUnavailable(
            f"opensandbox: the daemon inside is user {look.uid}, as commands are, who could end it: use an image whose "
            "USER is root, such as `FROM` one made of sandbox_image/Dockerfile with `USER root`"
        )
    if look.effective != 0:
        raise SandboxUnavailable(f"opensandbox: commands would have capabilities inside: {look.effective}")
    bounding = _ANY if look.bounding is None else look.bounding
    if bounding >> _CAP_NET_ADMIN & 1 or bounding >> _CAP_NET_RAW & 1:
        raise SandboxUnavailable(
            "opensandbox: NET_ADMIN or NET_RAW can be had inside, and with them the way round the egress policy: keep "
            "both in `[docker] drop_capabilities` of the server's configuration"
        )
    access = "with" if secure_access else "without"
    ports = "one TCP port by Landlock" if look.one_port else "no Landlock"
    return SandboxEnforcement(
        provider="opensandbox",
        mechanism=f"opensandbox {SDK_VERSION}, egress {_ENFORCING_MODE}, {access} secure access, {ports}",
        network="host" if isinstance(network, ModelOnly) else "none",
        memory="container",
        seccomp=bool(look.seccomp),
        user="container_uid",
    )


def unseen_enforcement() -> SandboxEnforcement:
    """What any sandbox that is lent has at least."""
    return SandboxEnforcement(
        provider="opensandbox",
        mechanism=f"opensandbox {SDK_VERSION}, egress {_ENFORCING_MODE}",
        network="host",
        memory="container",
        seccomp=False,
        user="container_uid",
    )


def _network(target: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | str:
    try:
        return ipaddress.ip_network(target)
    except ValueError:
        return target
