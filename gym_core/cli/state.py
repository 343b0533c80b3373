"""Where a gym that stays up leaves its address and its token for other commands of the same user."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gym_core.cli.launcher import OpenGym
from gym_core.errors import ConfigError
from gym_core.launch.state import state_root

USER_TOKEN_VARIABLE = "GYM_API_KEY"
_POINTER = "head.json"


@dataclass(frozen=True)
class HeadState:
    url: str
    token_file: Path | None

    def token(self) -> str:
        """GYM_API_KEY, else what the token file holds. Raises ConfigError."""
        given = os.environ.get(USER_TOKEN_VARIABLE)
        if given:
            return given
        if self.token_file is None:
            raise ConfigError(f"head: {self.url} needs a token: set {USER_TOKEN_VARIABLE}")
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as cause:
            raise ConfigError(f"head: the token file cannot be read: {cause}") from cause


@contextmanager
def announce(gym: OpenGym) -> Iterator[HeadState]:
    """Inside, `find_head()` of this user leads to the gym."""
    state = HeadState(gym.head_url, gym.state_dir / "token")
    pointer = gym.state_dir.parent / _POINTER
    _write_private(gym.state_dir / "token", gym.token + "\n")
    _write_private(pointer, json.dumps({"url": state.url, "token_file": str(state.token_file), "pid": os.getpid()}))
    try:
        yield state
    finally:
        (gym.state_dir / "token").unlink(missing_ok=True)
        if _read_pointer(pointer) == state:
            pointer.unlink(missing_ok=True)


def find_head(url: str | None) -> HeadState:
    """The head server at `url`, else the one that was started last here. Raises ConfigError."""
    announced = _read_pointer(state_root() / _POINTER)
    if url is None:
        if announced is None:
            raise ConfigError("env status: no gym was started here (gym env start); give --head URL")
        return announced
    url = url.rstrip("/")
    return announced if announced is not None and announced.url == url else HeadState(url, None)


def _read_pointer(path: Path) -> HeadState | None:
    """None when there is none, or when it is somebody else's: a shared temporary folder takes anybody's files."""
    try:
        if path.lstat().st_uid != os.getuid():
            return None
        content = json.loads(path.read_text(encoding="utf-8"))
        return HeadState(str(content["url"]), Path(content["token_file"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, readable by this user alone from the first byte."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).replace(path)
