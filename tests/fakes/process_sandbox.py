"""A sandbox without walls, for tests of what runs in one: commands are processes beside the test, files lie in a folder
of the test's. For programs of ours and code that does no harm alone.
"""

import asyncio
import os
import sys
from pathlib import Path

from gym_core.sandbox.contract import ExecResult, Launch, SandboxSpec
from tests.fakes.sandbox import FakeSandbox


class ProcessSandbox(FakeSandbox):
    """`folder` has the workspace; nothing is written outside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        work = folder / "work"
        work.mkdir()
        super().__init__("beside-the-test", SandboxSpec(workdir=str(work)))
        self.on_exec(self.run)

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        await super().write(path, content, mode)
        assert Path(path).is_relative_to(self.folder), path
        await asyncio.to_thread(_write, Path(path), content)

    async def run(self, launch: Launch, _: FakeSandbox) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            cwd=launch.cwd or self.workdir,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(self.folder), **launch.env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            stdout, stderr = await process.communicate()
        except BaseException:
            if process.returncode is None:
                os.kill(process.pid, 9)
            await process.wait()
            raise
        code = process.returncode or 0
        return ExecResult(
            exit_code=code if code >= 0 else None, signal=-code if code < 0 else None, stdout=stdout, stderr=stderr
        )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
