"""Log lines of a server: one JSON object each, on one stream, control characters escaped."""

import json
import logging
import time
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
