"""The addresses of this host, of every interface and both families: Linux's own tables, read as files."""

import contextlib
import ipaddress
import re
import socket
from pathlib import Path

MOST_ADDRESSES = 16
"""Of a host with more (one bridge for each container network), those by which packets leave are kept first."""

_IPV4_TABLE = Path("/proc/net/fib_trie")
_IPV6_TABLE = Path("/proc/net/if_inet6")
_LOCAL_IPV4 = re.compile(r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL\b")
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses of documentation: nothing is sent to them."""


def own_addresses() -> list[str]:
    """Without loopback and link-local ones; at most MOST_ADDRESSES, those of the default routes first."""
    found = [*_outgoing(), *local_ipv4(_text_of(_IPV4_TABLE)), *local_ipv6(_text_of(_IPV6_TABLE))]
    return [address for address in dict.fromkeys(found) if _is_outward(address)][:MOST_ADDRESSES]


def local_ipv4(fib_trie: str) -> list[str]:
    """Those that are the host's own, of the text of /proc/net/fib_trie."""
    return _LOCAL_IPV4.findall(fib_trie)


def local_ipv6(if_inet6: str) -> list[str]:
    """Of the text of /proc/net/if_inet6, whose lines begin with 32 hexadecimal digits."""
    digits = [line.split(maxsplit=1)[0] for line in if_inet6.splitlines() if line.strip()]
    return [str(ipaddress.IPv6Address(bytes.fromhex(word))) for word in digits if len(word) == 32]


def _outgoing() -> list[str]:
    """By which packets to elsewhere would leave."""
    found = []
    for family, elsewhere in _ELSEWHERE.items():
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))  # sends nothing: it only chooses the address
            found.append(str(probe.getsockname()[0]))
    return found


def _text_of(table: Path) -> str:
    with contextlib.suppress(OSError):  # a kernel without this family
        return table.read_text("ascii", "replace")
    return ""


def _is_outward(text: str) -> bool:
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(text)
        return not (address.is_loopback or address.is_link_local or address.is_unspecified)
    return False
