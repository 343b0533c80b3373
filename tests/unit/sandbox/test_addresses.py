"""The addresses of this host: every interface's, of both families."""

import shutil
import subprocess

import pytest

from gym_core.sandbox.addresses import MOST_ADDRESSES, local_ipv4, local_ipv6, own_addresses
from gym_core.sandbox.probe import Decoys

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.0
           /24 link UNICAST
        |-- 10.0.0.7
           /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
     |-- 172.17.0.1
        /32 host LOCAL
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /32 link BROADCAST
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
"""
IF_INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000002 04 40 00 82     eth0
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
"""


def test_the_kernel_s_tables_are_read() -> None:
    assert local_ipv4(FIB_TRIE) == ["10.0.0.7", "172.17.0.1", "127.0.0.1"]
    assert local_ipv6(IF_INET6) == ["::1", "fd00::2", "fe80::fc:ff:fe00:1"]
    assert local_ipv4("") == local_ipv6("") == []


def test_every_address_of_every_interface_is_found() -> None:
    """As another program lists them."""
    ip = shutil.which("hostname")
    listed = subprocess.run([ip, "-I"], capture_output=True, text=True, check=False) if ip else None
    if listed is None or listed.returncode or not listed.stdout.split():
        pytest.skip("no `hostname -I` here, or no address but loopback")
    found = own_addresses()
    assert set(listed.stdout.split()[:MOST_ADDRESSES]) <= set(found) or len(found) == MOST_ADDRESSES
    assert not {"127.0.0.1", "::1"} & set(found)
    assert len(found) == len(set(found)) <= MOST_ADDRESSES


async def test_there_is_a_decoy_on_each() -> None:
    decoys = Decoys()
    await decoys.open(None)
    hosts = {door.host for door in decoys.doors}
    await decoys.close()
    assert {"127.0.0.1", *own_addresses()} <= hosts
