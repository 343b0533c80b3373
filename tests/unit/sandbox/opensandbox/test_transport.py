"""HTTP to what may have been replaced by a task, and to what says it is the server."""

import asyncio
import gzip
import shutil
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.providers.opensandbox import OpenSandboxConfig, OpenSandboxProvider
from gym_core.sandbox.providers.opensandbox.bounded import bounded_transport
from tests.fakes.serving import serving


async def long(request: Request) -> Response:
    return Response(bytes(2000))


async def packed(request: Request) -> Response:
    return Response(gzip.compress(bytes(1 << 20)), headers={"Content-Encoding": "gzip"})


async def test_an_answer_may_not_be_longer_than_expected_nor_be_packed() -> None:
    app = Starlette(routes=[Route("/long", long), Route("/packed", packed)])
    async with serving(app) as url:
        for most, path, passes in ((2000, "long", True), (1999, "long", False), (1 << 30, "packed", False)):
            async with httpx.AsyncClient(transport=bounded_transport(max_connections=1, most_bytes=most)) as client:
                if passes:
                    assert len((await client.get(f"{url}/{path}")).content) == 2000
                else:
                    with pytest.raises(httpx.ReadError):
                        await client.get(f"{url}/{path}")


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl program, to make a certificate")
async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    outputs = ["-keyout", str(key), "-out", str(certificate)]
    await asyncio.to_thread(subprocess.run, ["openssl", *words, *names, *outputs], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=context) as server:
        domain = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        provider = OpenSandboxProvider(OpenSandboxConfig(domain=domain, protocol="https", image="image"))
        with pytest.raises(SandboxUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await provider.list()
        await provider.aclose()


@pytest.mark.parametrize("domain", ["https://host", "host/path", ""])
def test_a_domain_is_a_host(domain: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        OpenSandboxConfig(domain=domain)
