"""What a living Python costs beside the model's code: its start, a turn, pictures, a restart; and what it saves.

    python -m tests.bench.bench_python_runtime [--rounds 50]

Embedded sandboxes with the toolkit. A turn is compared with a bare command, with the start of a Python that does
nothing, and with what a turn would be without the living process: a Python that imports all and opens the clue anew.
"""

import argparse
import asyncio
import io
from collections.abc import Sequence

from PIL import Image

from gym_core.sandbox import toolkit
from gym_core.sandbox.contract import Launch, Sandbox, SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from gym_core.servers.python_runtime import PythonRuntime, RuntimeSettings, Setup
from tests.bench.bench_sandbox import Table, timed, took

IMPORTS = "import matplotlib.pyplot as plt, numpy as np\nfrom PIL import Image\n"
OPEN_CLUE = "clue = Image.open(FOLDER + '/clue.png')\nclue.load()\n"
DRAW = "plt.imshow(clue); plt.show()"


async def commands(sandbox: Sandbox, argv: Sequence[str], rounds: int) -> list[float]:
    launch = Launch(argv=list(argv))
    return [await took(sandbox.exec(launch)) for _ in range(rounds)]


async def turns(python: PythonRuntime, code: str, rounds: int) -> list[float]:
    return [await took(python.run(code)) for _ in range(rounds)]


async def measure(sandbox: Sandbox, rounds: int, table: Table) -> None:
    clue = io.BytesIO()
    Image.effect_noise((1000, 800), 64).convert("RGB").save(clue, "PNG")
    setup = Setup({"clue.png": clue.getvalue()}, IMPORTS + OPEN_CLUE)
    starts: list[float] = []
    for _ in range(max(3, rounds // 10)):
        bare = PythonRuntime(sandbox, RuntimeSettings(), Setup())
        with timed(starts):
            await bare.run("")
        await bare.close()
    table.add("a process, without prelude, and its first turn", starts)
    python = PythonRuntime(sandbox, RuntimeSettings(timeout_s=1), setup)
    table.add("a process with matplotlib, numpy and a clue of 2 MB", [await took(python.run(""))])
    true = await commands(sandbox, ["true"], rounds)
    start = await commands(sandbox, ["python3", "-I", "-S", "-c", "pass"], rounds)
    empty = await turns(python, "", rounds)
    drawn = await turns(python, DRAW, max(3, rounds // 5))
    anew_code = (
        f"import os\nFOLDER = {python.folder!r}\n{IMPORTS}{OPEN_CLUE}plt.imshow(clue); plt.savefig('/tmp/figure.png')"
    )
    anew = await commands(sandbox, ["python3", "-c", anew_code], max(3, rounds // 10))
    for what, seconds in (
        ("a command that does nothing", true),
        ("a Python that does nothing", start),
        ("a turn that does nothing", empty),
        ("a turn that shows the clue in a figure", drawn),
        ("the same by a Python of its own", anew),
    ):
        table.add(what, seconds)
    middle = [sorted(seconds)[len(seconds) // 2] for seconds in (empty, true, start, anew, drawn)]
    table.line("a turn against a bare command", f"{middle[0] / middle[1]:.1f} times")
    table.line("a turn against a Python that does nothing", f"{middle[0] / middle[2]:.1f} times")
    table.line("a Python of its own against a turn, with a figure", f"{middle[3] / middle[4]:.1f} times")
    killed = await took(python.run("while True: pass"))
    table.line("past a time-out of 1 s, until the model is answered", f"{(killed - 1) * 1e3:.0f} ms")
    await python.close()


async def main(rounds: int) -> None:
    provider = LocalProvider(LocalSandboxConfig(toolkit=str(toolkit.toolkit_dir())))
    try:
        sandbox = await provider.create("bench", SandboxSpec(resources=SandboxResources(cpu=2, memory_mib=2048)))
        await measure(sandbox, rounds, Table())
    finally:
        await provider.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    asyncio.run(main(parser.parse_args().rounds))
