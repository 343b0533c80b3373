"""What every sandbox whose process 1 is ours looks like inside, whichever program made its walls."""

from gym_core.sandbox.contract import ModelOnly

INIT_PATH = "/.gym_init.py"
"""Process 1's code inside; also the mark by which a probe knows that it is in a sandbox."""

HOME = "/home/agent"
PATH = "/opt/toolkit/bin:/usr/local/bin:/usr/bin:/bin"
ENV = {"PATH": PATH, "HOME": HOME, "USER": "agent", "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp"}

TMP_MIB, HOME_MIB, RUN_MIB, SHM_MIB = 256, 1024, 16, 64
"""A harness keeps each picture several times in its home; what is not used costs nothing."""

OPEN_FILES = 4096

_FIRST_UNPRIVILEGED_PORT = 1024
_PORT_SHIFT = 20_000


def inside_port(model: ModelOnly) -> int:
    """The model's own port, except that nobody inside may bind a privileged one."""
    return model.port if model.port >= _FIRST_UNPRIVILEGED_PORT else model.port + _PORT_SHIFT
