"""An OpenSandbox server in the test's own process, over real HTTP: what the real SDK sends and reads, and its traps."""

from tests.fakes.opensandbox.insides import BoxInside, Inside, MemoryInside
from tests.fakes.opensandbox.server import FakeOpenSandbox, open_opensandbox

__all__ = ["BoxInside", "FakeOpenSandbox", "Inside", "MemoryInside", "open_opensandbox"]
