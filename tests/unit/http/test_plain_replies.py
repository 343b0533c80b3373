"""Replies are read as they come, so nobody may be invited to compress them."""

import asyncio

from gym_core.http.client import HttpPool


async def test_no_compressed_reply_is_asked_for() -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, HttpPool() as pool:
        port = server.sockets[0].getsockname()[1]
        await pool.service(f"http://127.0.0.1:{port}", "t").send("GET", "/")
    asked = [line for line in heads[0].splitlines() if line.lower().startswith(b"accept-encoding")]
    assert asked == [b"Accept-Encoding: identity"]
