"""The least that the same work can cost: a loop that reads each picture, encodes it, asks, compares and writes a line.

python -m tests.bench.raw_client PICTURES_FOLDER COUNT CONCURRENCY BASE_URL OUTPUT
"""

import asyncio
import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from tests.bench.endpoint import ANSWER, MODEL


async def ask_all(pictures: list[Path], concurrency: int, base_url: str, output: Path) -> None:
    waiting: Iterator[Path] = iter(pictures)
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as http, asyncio.TaskGroup() as group:
        with output.open("w") as lines:
            await asyncio.wait([group.create_task(_ask(waiting, http, base_url, lines)) for _ in range(concurrency)])


async def _ask(waiting: Iterator[Path], http: aiohttp.ClientSession, base_url: str, lines: object) -> None:
    for picture in waiting:
        url = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what is six times seven?"}]
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": parts}]})
        headers = {"Content-Type": "application/json"}
        async with http.post(f"{base_url}/chat/completions", data=body, headers=headers) as reply:
            said = (await reply.json())["choices"][0]["message"]["content"]
        print(json.dumps({"picture": picture.name, "reward": float(said == ANSWER)}), file=lines)  # type: ignore[call-overload]


def main() -> None:
    folder, count, concurrency, base_url, output = sys.argv[1:]
    pictures = sorted(Path(folder).iterdir())[: int(count)]
    asyncio.run(ask_all(pictures, int(concurrency), base_url, Path(output)))


if __name__ == "__main__":
    main()
