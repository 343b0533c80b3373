"""What OpenCode 1.17.11 is told for one run: its configuration file, its command line and its environment. Pure.

Each odd value has a measured reason; the ones without a comment switch off a fetch, a question or an extra model call
that a headless run must not make. Folders, title and names are constants, so that equal tasks give equal prompts.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gym_core.datasets.images import MAX_PIXELS
from gym_core.types.wire import JsonObject

OPENCODE_VERSION = "1.17.11"
TOOLKIT = "/opt/toolkit"
RUN_DIR = "/home/agent/.gym-run"
"""Files of the run. Outside the workspace, so that a model that lists its files does not stumble on them."""

CONFIG_FILE = f"{RUN_DIR}/opencode.json"
PROMPT_FILE = f"{RUN_DIR}/prompt.txt"
EVENTS_FILE = f"{RUN_DIR}/events.jsonl"
LOG_FILE = f"{RUN_DIR}/log.txt"
EXPORT_FILE = f"{RUN_DIR}/export.json"
STATE_DIR = f"{RUN_DIR}/state"
"""OpenCode's data, cache and state folders: never shared by two runs (its database locks)."""

MODEL_ALIAS = "policy"
"""Model ids choose OpenCode's system prompt by substring, and are printed in it; the proxy puts the real one."""

MAX_ATTACHMENT_BASE64_BYTES = 64 << 20
"""Above the largest task image. By default OpenCode shrinks pictures over 5 MiB or 2000 pixels a side, and the model's
crops by pixel coordinates would miss."""

_UNSUITABLE_TOOLS = ("question", "webfetch", "websearch", "task", "skill", "todowrite", "lsp")
"""`task` opens child sessions whose calls cannot be joined and whose permission requests nobody answers."""


@dataclass(frozen=True)
class Model:
    """The policy as OpenCode is to see it."""

    base_url: str
    """Ends in /v1; as seen from inside the sandbox."""
    api_key: str
    context_tokens: int
    max_output_tokens: int
    temperature: float | None = None
    """None leaves sampling to the endpoint."""
    top_p: float | None = None


def make_config(model: Model, *, timeout_s: float) -> str:
    """The text of `opencode.json`. `timeout_s` is the run's wall limit, which is to strike first.

    Unknown top-level keys are fatal to OpenCode; the last permission that matches wins, so `*` comes first.
    """
    name = f"{MODEL_ALIAS}/{MODEL_ALIAS}"
    config: JsonObject = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "plugin": [],
        "mcp": {},
        "instructions": [],
        "enabled_providers": [MODEL_ALIAS],
        "model": name,
        "small_model": name,
        "compaction": {"auto": False, "prune": False},
        "permission": {
            "*": "allow",
            "external_directory": "allow",
            "doom_loop": "allow",  # three equal calls in one message: rejecting them would end the run
            **dict.fromkeys(_UNSUITABLE_TOOLS, "deny"),
        },
        "attachment": {
            "image": {
                "auto_resize": False,
                "max_width": MAX_PIXELS,
                "max_height": MAX_PIXELS,
                "max_base64_bytes": MAX_ATTACHMENT_BASE64_BYTES,
            }
        },
        "agent": {"title": {"disable": True}, "summary": {"disable": True}},
        "provider": {MODEL_ALIAS: _provider(model, timeout_s=timeout_s)},
    }
    return json.dumps(config, indent=1)


def _provider(model: Model, *, timeout_s: float) -> JsonObject:
    sampling = {"temperature": model.temperature, "top_p": model.top_p}
    return {
        "name": MODEL_ALIAS,
        "npm": "@ai-sdk/openai-compatible",  # bundled; one that is not would hang the run
        "options": {
            "baseURL": model.base_url,
            "apiKey": model.api_key,
            # Milliseconds, of one whole call; 300,000 by default. No chunkTimeout: it retries silently and for ever.
            "timeout": int((timeout_s + 60) * 1000),
        },
        "models": {
            MODEL_ALIAS: {
                "name": MODEL_ALIAS,
                "id": MODEL_ALIAS,
                "attachment": True,
                "tool_call": True,
                "temperature": False,
                "reasoning": False,
                "modalities": {"input": ["text", "image"], "output": ["text"]},  # `attachment` alone drops every image
                "limit": {"context": model.context_tokens, "output": model.max_output_tokens},
                "cost": {"input": 0, "output": 0},
                "options": {key: value for key, value in sampling.items() if value is not None},
            }
        },
    }


def make_environment(*, max_output_tokens: int, timezone: str) -> dict[str, str]:
    """Environment of OpenCode, and so of the model's commands."""
    switched_off = (
        "MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "EXTERNAL_SKILLS", "CLAUDE_CODE",
        "AUTOCOMPACT", "PRUNE", "SHARE", "TERMINAL_TITLE", "EMBEDDED_WEB_UI",
        "PROJECT_CONFIG",  # else an AGENTS.md that the model writes changes its own system prompt
    )  # fmt: skip
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {
        "OPENCODE_CONFIG": CONFIG_FILE,
        "OPENCODE_MODELS_PATH": f"{TOOLKIT}/opencode/models.json",  # an empty catalogue halves the run's cost
        "OPENCODE_PURE": "1",
        # Without it calls ask for 32,000 tokens at most, whatever the model entry says.
        "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX": str(max_output_tokens),
        **{f"OPENCODE_DISABLE_{name}": "1" for name in switched_off},
        "HOME": "/home/agent",
        "XDG_CONFIG_HOME": TOOLKIT,  # its `opencode` folder counts as installed, so nothing is fetched into it
        "XDG_DATA_HOME": f"{STATE_DIR}/data",
        "XDG_CACHE_HOME": f"{STATE_DIR}/cache",
        "XDG_STATE_HOME": f"{STATE_DIR}/state",
        "TMPDIR": "/tmp",  # a constant: it is printed in a tool's description
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{STATE_DIR}/matplotlib",  # else it warns that it cannot write into XDG_CONFIG_HOME
        "PATH": f"{TOOLKIT}/bin:/usr/local/bin:/usr/bin:/bin",  # with rg, which OpenCode would download
        "NO_COLOR": "1",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "TZ": timezone,
        **dict.fromkeys(threads, "1"),
    }


def run_command(images: Sequence[str]) -> list[str]:
    """One shell line that runs OpenCode once. `images` are absolute paths, attached in this order.

    The prompt comes from a file by stdin (an argument would be quoted and escaped, and an open stdin waits for ever),
    the output goes to files (through a pipe OpenCode loses most of it at exit, with code 0), and `--file=` keeps the
    option from taking the next word for a file too.
    """
    attachments = [f"--file={path}" for path in images]
    model = f"{MODEL_ALIAS}/{MODEL_ALIAS}"
    opencode = ["opencode", "run", "--format", "json", "--thinking", "--title", "task", "-m", model]
    line = (
        f"rm -rf {STATE_DIR} {EVENTS_FILE} {LOG_FILE} {EXPORT_FILE}; mkdir -p {STATE_DIR}; "
        f"exec {shlex.join([*opencode, *attachments])} <{PROMPT_FILE} >{EVENTS_FILE} 2>{LOG_FILE}"
    )
    return ["/bin/sh", "-c", line]


def export_command(opencode_session_id: str) -> list[str]:
    """Write a session's messages to a file; works after a kill too."""
    line = f"exec {shlex.join(['opencode', 'export', opencode_session_id])} </dev/null >{EXPORT_FILE} 2>>{LOG_FILE}"
    return ["/bin/sh", "-c", line]


STOP_COMMAND = ["/bin/sh", "-c", "kill -9 -1"]
"""Ends whatever still runs in the sandbox but this shell and process 1: each bash call is a session of its own, which
outlives OpenCode and its process group."""


def timezone_away_from_midnight(now: datetime, timeout_s: float) -> str:
    """UTC, or where the run might see midnight there, a zone in which the same date has hours to go.

    The system prompt names the date, and a prompt that changes between two calls cannot be joined. `now` is aware.
    """
    now = now.astimezone(UTC)
    late = timedelta(hours=now.hour, minutes=now.minute, seconds=now.second) + timedelta(seconds=timeout_s + 300)
    if late < timedelta(days=1):
        return "UTC"
    return f"Etc/GMT+{min(now.hour, 12)}"  # POSIX sign: hours behind UTC
