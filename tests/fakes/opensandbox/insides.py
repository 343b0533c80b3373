"""What is behind the daemon of a faked OpenSandbox sandbox: nothing, or an embedded sandbox that runs programs."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable
from typing import Protocol

from gym_core.sandbox.contract import ExecResult, Launch, Sandbox, SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider
from gym_core.sandbox.providers.opensandbox.courier import CHUNK_BYTES, NOT_WHOLE, TOO_LONG
from tests.fakes.sandbox import FakeSandbox, OnExec, succeed

OnText = Callable[[str], None]

_FILES_MIB = 256


class Inside(Protocol):
    async def run(self, argv: list[str], on_stdout: OnText) -> int:
        """A program's exit code. Cancelling kills it and all that it started."""
        ...

    async def upload(self, path: str, content: bytes, mode: int) -> None: ...

    async def remove(self, path: str) -> None: ...

    async def close(self) -> None: ...


class BoxInside:
    """An embedded sandbox: real programs, real files, no network."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    @classmethod
    async def open(cls, provider: LocalProvider, name: str, memory_mib: int) -> "BoxInside":
        # OpenSandbox has no word for the size of a workspace: files are a part of what the container may use.
        resources = SandboxResources(memory_mib=memory_mib + _FILES_MIB, workspace_mib=_FILES_MIB, pids=64)
        return cls(await provider.create(name, SandboxSpec(resources=resources)))

    async def run(self, argv: list[str], on_stdout: OnText) -> int:
        launch = Launch(argv=argv, timeout_s=600, output_cap_bytes=1 << 28)
        result = await self._sandbox.exec(
            launch, lambda stream, data: on_stdout(data.decode()) if stream == "stdout" else None
        )
        return result.exit_code if result.exit_code is not None else -(result.signal or 0)

    async def upload(self, path: str, content: bytes, mode: int) -> None:
        await self._sandbox.write(path, content, mode)

    async def remove(self, path: str) -> None:
        await self._sandbox.exec(Launch(argv=["rm", "-f", path]))

    async def close(self) -> None:
        await self._sandbox.close()


class MemoryInside:
    """Does by heart what the provider's courier does; commands are what the test says."""

    def __init__(self, on_exec: OnExec = succeed) -> None:
        self.sandbox = FakeSandbox("inside", SandboxSpec())
        self.sandbox.on_exec(on_exec)
        self.facts: dict[str, object] = {
            "uid": 1000,
            "daemon_is_apart": True,
            "effective": 0,
            "bounding": 0,
            "seccomp": True,
            "no_new_privileges": True,
            "one_port": True,
        }
        """What a look around finds."""
        self.only_ports: list[object] = []
        """What each command was held to."""

    async def run(self, argv: list[str], on_stdout: OnText) -> int:
        assert argv[:3] == ["python3", "-I", "-c"]
        request = json.loads("".join(argv[4:]))
        on_stdout(_frame("p", b"1"))
        end = await getattr(self, f"_{request['op']}")(request, on_stdout)
        on_stdout(_frame("x", json.dumps(end).encode()))
        return 0

    async def upload(self, path: str, content: bytes, mode: int) -> None:
        await self.sandbox.write(path, content, mode)

    async def remove(self, path: str) -> None:
        self.sandbox.files.pop(path, None)

    async def close(self) -> None:
        await self.sandbox.close()

    async def _look(self, request: dict[str, object], on_stdout: OnText) -> dict[str, object]:
        return {"status": 0} | self.facts

    async def _exec(self, request: dict[str, object], on_stdout: OnText) -> dict[str, object]:
        self.only_ports.append(request["only_port"])
        launch = Launch.model_validate(
            {
                "argv": request["argv"],
                "cwd": request["cwd"],
                "env": request["env"],
                "timeout_s": request["timeout_s"],
                "output_cap_bytes": request["cap"],
            }
        )
        result: ExecResult = await self.sandbox.exec(
            launch, lambda stream, data: _say("o" if stream == "stdout" else "e", data, on_stdout)
        )
        status = result.exit_code if result.signal is None else -result.signal
        return {"status": status, "timed_out": result.timed_out, "truncated": result.truncated}

    async def _place(self, request: dict[str, object], on_stdout: OnText) -> dict[str, object]:
        content = self.sandbox.files.get(str(request["part"]))
        if content is None or (len(content), _digest(content)) != (request["size"], request["sha256"]):
            return {"status": NOT_WHOLE}
        assert isinstance(request["mode"], int)
        await self.sandbox.write(str(request["path"]), content, request["mode"])
        return {"status": 0}

    async def _get(self, request: dict[str, object], on_stdout: OnText) -> dict[str, object]:
        assert isinstance(request["max_bytes"], int)
        try:
            content = await self.sandbox.read(str(request["path"]), request["max_bytes"])
        except FileNotFoundError:
            return {"status": 2}
        except ValueError:
            return {"status": TOO_LONG}
        _say("d", content, on_stdout)
        return {"status": 0, "sha256": _digest(content)}


def _say(kind: str, content: bytes, on_stdout: OnText) -> None:
    for start in range(0, len(content), CHUNK_BYTES):
        on_stdout(_frame(kind, content[start : start + CHUNK_BYTES]))


def _frame(kind: str, content: bytes) -> str:
    return f"<{kind}:{b64encode(content).decode()}>\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
