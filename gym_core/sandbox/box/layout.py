"""What every sandbox whose process 1 is ours looks like inside, whichever program made its walls."""

import math
from dataclasses import dataclass

from gym_core.sandbox.contract import ModelOnly, SandboxSpec

INIT_PATH = "/.gym_init.py"
"""Process 1's code inside; also the mark by which a probe knows that it is in a sandbox."""

HOME = "/home/agent"
PATH = "/opt/toolkit/bin:/usr/local/bin:/usr/bin:/bin"
ENV = {"PATH": PATH, "HOME": HOME, "USER": "agent", "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp"}

TMP_MIB, HOME_MIB, RUN_MIB, SHM_MIB = 256, 1024, 16, 64
"""A harness keeps each picture several times in its home; what is not used costs nothing."""

OPEN_FILES = 4096

_IDLE_MARGIN_S = 30
"""Process 1 waits this much longer than the time to live, so that it is its owner who ends a sandbox if he can."""

_LONGEST_S, _LONGEST_TTLS = 86_400.0, 4.0

_FIRST_UNPRIVILEGED_PORT = 1024
_PORT_SHIFT = 20_000


def inside_port(model: ModelOnly) -> int:
    """The model's own port, except that nobody inside may bind a privileged one."""
    return model.port if model.port >= _FIRST_UNPRIVILEGED_PORT else model.port + _PORT_SHIFT


def longest_s(spec: SandboxSpec) -> float:
    """However much it is used, a sandbox ends after a day, or after four times its `ttl_s` if that is longer: so that
    whoever finds one can tell when nobody has a use for it any more."""
    return max(_LONGEST_S, _LONGEST_TTLS * spec.ttl_s)


@dataclass(frozen=True)
class InitStart:
    """How process 1 is told what to do; `init.py` says what the words mean."""

    control: str
    max_processes: int = 0
    data_mib: int = 0
    filter_path: str = ""

    def argv(self, python: str, spec: SandboxSpec) -> list[str]:
        """`python` is a path, or a name on the path, inside."""
        port = inside_port(spec.network) if isinstance(spec.network, ModelOnly) else 0
        numbers = (port, self.max_processes, self.data_mib, math.ceil(spec.ttl_s) + _IDLE_MARGIN_S)
        return [python, "-I", "-S", INIT_PATH, self.control, *map(str, numbers), self.filter_path, spec.workdir]
