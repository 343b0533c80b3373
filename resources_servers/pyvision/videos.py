"""Videos of a row: what names one, and a look from inside the sandbox at whether it can be read.

A video is either in the row, as a `data:` URL, or a file with its SHA-256 in a folder that the configuration shares
with every sandbox. No server of ours opens one: that is done where the model's code runs.
"""

import base64
import binascii
import json
import posixpath
import re
from collections.abc import Sequence
from importlib import resources
from typing import Annotated

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, ValidationError

from gym_core.errors import FailureKind, InvalidTask, SandboxError
from gym_core.sandbox.contract import Launch, Sandbox
from gym_core.types.wire import Wire

MAX_INLINE_BYTES = 16 << 20
"""Of a video in a row: as base64 it is a third longer, and a row may have 64 MiB."""
MAX_VIDEOS = 8
LOOK_TIMEOUT_S = 150.0
"""For all of a row's; the seed of a session takes no longer than 180 s."""

READER_FILE = "video_reader.py"

_URL_HEAD = re.compile(r"data:video/[A-Za-z0-9.+-]{1,64};base64,", re.IGNORECASE)
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. +=@()-]{0,199}")
_MAX_NAME = 400
_MAX_REPORT_BYTES = 64 << 10


def _is_inline_video(url: str) -> str:
    head = _URL_HEAD.match(url)
    if head is None:
        raise ValueError(f"no base64 video data URL: it begins with {url[:40]!r}")
    if (len(url) - head.end()) * 3 // 4 > MAX_INLINE_BYTES + 2:
        raise ValueError(
            f"the video is larger than {MAX_INLINE_BYTES >> 20} MiB: name a file in a shared folder instead"
        )
    return url


def _is_plain_name(name: str) -> str:
    segments = name.split("/")
    if len(name) > _MAX_NAME or not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise ValueError(
            f"{name[:80]!r} is no plain name of a file: segments of letters, digits and _. +=@()- between slashes, "
            "none of them beginning with a dot"
        )
    return name


class InlineVideo(Wire):
    url: Annotated[str, AfterValidator(_is_inline_video)]
    """A `data:video/*;base64,` URL."""

    def content(self) -> bytes:
        """Raises InvalidTask."""
        try:
            return base64.b64decode(self.url.partition(",")[2], validate=True)
        except binascii.Error as error:
            raise InvalidTask(f"video of the row: {error}") from error


class SharedVideo(Wire):
    file: Annotated[str, AfterValidator(_is_plain_name)]
    """Relative to the shared folder."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def _kind_of(value: object) -> str:
    is_inline = isinstance(value, InlineVideo) or (isinstance(value, dict) and "url" in value)
    return "in_the_row" if is_inline else "a_file"


Video = Annotated[
    Annotated[InlineVideo, Tag("in_the_row")] | Annotated[SharedVideo, Tag("a_file")], Discriminator(_kind_of)
]
Videos = Annotated[tuple[Video, ...], Field(max_length=MAX_VIDEOS)]


class _Asked(Wire):
    path: str
    sha256: str | None


class _Look(Wire):
    """What the program below prints."""

    mistakes: list[str | None]


# Runs after the reader's source, as one program: so it needs no import of ours.
_LOOKING = """
import hashlib as _hashlib, json as _json, os as _os, stat as _stat, sys as _sys
av.logging.set_level(None)

def _mistake(path, sha256, max_bytes):
    try:
        status = _os.stat(path)
    except OSError as error:
        return f"cannot be found: {error.strerror}"
    if not _stat.S_ISREG(status.st_mode):
        return "is no file"
    if sha256 is not None and status.st_size > max_bytes:
        return f"has {status.st_size} bytes, more than {max_bytes}"
    if sha256 is not None:
        with open(path, "rb") as content:
            found = _hashlib.file_digest(content, "sha256").hexdigest()
        if found != sha256:
            return f"has the SHA-256 {found}, not the row's"
    try:
        video = VideoReader(path)
        video[0]
        video[len(video) - 1]
    except Exception as error:
        return f"cannot be read: {type(error).__name__}: {error}"[:300].replace(path, "it")
    return None

_asked = _json.loads(_sys.argv[1])
print(_json.dumps({"mistakes": [_mistake(v["path"], v["sha256"], _asked["max_bytes"]) for v in _asked["videos"]]}))
"""


async def place_videos(
    videos: Sequence[InlineVideo | SharedVideo], sandbox: Sandbox, *, shared: str | None, max_bytes: int
) -> list[str]:
    """Paths of the videos inside, in order, each one known to be readable.

    `shared` is the path inside of the shared folder, `max_bytes` the most of a file there. Raises InvalidTask naming
    the first video that is not as the row says, SandboxError where nobody could look.
    """
    asked = [await _placed(index, video, sandbox, shared) for index, video in enumerate(videos)]
    if not asked:
        return []
    mistakes = await _looked_at(asked, sandbox, max_bytes)
    for video, mistake in zip(videos, mistakes, strict=True):
        if mistake is not None:
            name = repr(video.file) if isinstance(video, SharedVideo) else "in the row"
            raise InvalidTask(f"the video {name} {mistake[:500]}")
    return [one.path for one in asked]


async def _placed(index: int, video: InlineVideo | SharedVideo, sandbox: Sandbox, shared: str | None) -> _Asked:
    if isinstance(video, InlineVideo):
        path = posixpath.join(sandbox.workdir, f"video_clue_{index}.video")
        await sandbox.write(path, video.content(), mode=0o444)
        return _Asked(path=path, sha256=None)
    if shared is None:
        raise InvalidTask(
            f"the video {video.file!r} is a file, and no folder of videos is shared: set sandbox_config.mounts"
        )
    return _Asked(path=posixpath.join(shared, video.file), sha256=video.sha256)


async def _looked_at(asked: Sequence[_Asked], sandbox: Sandbox, max_bytes: int) -> list[str | None]:
    wanted = json.dumps({"videos": [one.model_dump() for one in asked], "max_bytes": max_bytes})
    program = reader_source() + _LOOKING
    launch = Launch(
        argv=["python3", "-c", program, wanted], timeout_s=LOOK_TIMEOUT_S, output_cap_bytes=_MAX_REPORT_BYTES
    )
    seen = await sandbox.exec(launch)
    if seen.timed_out:
        raise InvalidTask(f"the row's videos could not be looked through within {LOOK_TIMEOUT_S:g} s")
    try:
        look = _Look.model_validate_json(seen.stdout)
    except ValidationError as error:
        why = seen.stderr[-500:].decode("utf-8", "replace")
        raise SandboxError(
            f"no look at the row's videos: exit code {seen.exit_code}: {why}", kind=FailureKind.SANDBOX_ERROR
        ) from error
    if len(look.mistakes) != len(asked):
        raise SandboxError("no look at the row's videos: the answer is about others")
    return look.mistakes


def reader_source() -> str:
    """Of the reader, which the sandbox's Python runs. It is not imported here: a server needs no PyAV."""
    return (resources.files("gym_core.datasets") / READER_FILE).read_text(encoding="utf-8")
