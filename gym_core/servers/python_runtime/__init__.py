"""A living Python for models that write code: one process a session, in its sandbox, and the base of servers."""

from gym_core.servers.python_runtime.runtime import GRACE_S, PythonRuntime
from gym_core.servers.python_runtime.server import (
    CodeArguments,
    PythonSession,
    PythonToolServer,
    PythonToolServerConfig,
    told,
)
from gym_core.servers.python_runtime.settings import Execution, Outcome, RuntimeSettings, Setup
from gym_core.servers.python_runtime.written_code import TOOL_NAME, code_of

__all__ = [
    "GRACE_S",
    "TOOL_NAME",
    "CodeArguments",
    "Execution",
    "Outcome",
    "PythonRuntime",
    "PythonSession",
    "PythonToolServer",
    "PythonToolServerConfig",
    "RuntimeSettings",
    "Setup",
    "code_of",
    "told",
]
