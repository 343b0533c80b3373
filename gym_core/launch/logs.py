"""Log lines of a server: one JSON object each, on one stream, control characters escaped."""

import json
import logging
import time
from pathlib import Path
from typing import TextIO

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """An event phrase and its fields, greppable by both."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server = server

    def format(self, record: logging.LogRecord) -> str:
        fields = {key: value for key, value in record.__dict__.items() if key not in _STANDARD}
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "server": self._server,
            "logger": record.name,
            "event": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def log_to(stream: TextIO, server: str, level: int = logging.INFO) -> None:
    """Send this process's logs there, and nowhere else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(server))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def log_tail(path: Path, max_bytes: int = 6000) -> str:
    """The end of a server's log for an error message, tracebacks as people know them; "" when there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - max_bytes))
            content = file.read()
    except OSError:
        return ""
    return "\n".join(map(_readable, content.decode("utf-8", "replace").splitlines()))


def _readable(line: str) -> str:
    """One of our lines without its time and place; any other as it is."""
    try:
        fields = json.loads(line)
        head = f"{fields.pop('level')}: {fields.pop('event')}".rstrip()
    except (ValueError, KeyError, TypeError, AttributeError):
        return line
    trace = fields.pop("traceback", "")
    more = " ".join(f"{key}={value}" for key, value in fields.items() if key not in ("time", "server", "logger"))
    return "\n".join(part for part in (f"{head} {more}".rstrip(), trace) if part)
