"""`gym view` ends when it is told to."""

import signal
import subprocess
import sys
import urllib.request

import pytest

pytestmark = [pytest.mark.live, pytest.mark.viewer]

_SERVER = """
import asyncio, time
from fastapi import FastAPI
from gym_core.viewer.serving import listen, serve

app = FastAPI()

@app.get("/")
async def stuck():
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)

listener = listen(0)
print(listener.getsockname()[1], flush=True)
serve(app, listener)
"""


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_read_that_hangs_does_not_keep_it(told: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as reply:
            assert reply.status == 200
        process.send_signal(told)
        assert process.wait(60) in (0, -told)
    finally:
        process.kill()
        process.communicate()
