"""How far an execution may go, what a runtime is set up with, and what comes back."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from gym_core.types.wire import Wire

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


class RuntimeSettings(Wire):
    """`python_runtime` of a resources server's block; all but the time is told to the model when it goes beyond."""

    timeout_s: float = Field(default=30.0, gt=0)
    """Of one execution; then the process is killed, and the next code has a new one."""
    max_output_chars: int = Field(default=20_000, ge=200, le=1_000_000)
    """Of what one execution prints, traceback included; cut in the middle."""
    max_images: int = Field(default=8, ge=0, le=64)
    """Of one execution; the first ones are kept."""
    max_image_pixels: int = Field(default=4_000_000, ge=1, le=16_000_000)
    """Of one image; larger ones are scaled down."""
    max_aspect_ratio: float = Field(default=200.0, ge=1)
    """Of one image's sides; more is refused."""


@dataclass(frozen=True)
class Setup:
    """What a process finds, the first and each that follows it. Raises ValueError for a name with a folder in it."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """By plain name, for the runtime's own folder in the sandbox; written anew before each start."""
    prelude: str = ""
    """Code of ours, run in the model's namespace at each start; `FOLDER` there is where the files are."""

    def __post_init__(self) -> None:
        for name in self.files:
            if not _FILE_NAME.fullmatch(name):
                raise ValueError(f"file {name!r} of a Python runtime: letters, digits, '.', '_' and '-' make its name")


Outcome = Literal["ok", "raised", "timed_out", "died", "not_run"]


@dataclass(frozen=True)
class Execution:
    outcome: Outcome
    """`died`: the process ended under the code, by itself or by the kernel; `not_run`: it had ended before."""
    text: str
    """What both streams printed, as it came, and the traceback's end where it raised. Bounded, without escapes."""
    images: Sequence[bytes]
    """PNG files in the order in which they were shown: bounded, but made beside the model's code, so yet unchecked."""
    restarted: bool
    """The next code meets a new process: variables are gone, what the setup gives is there again."""
    notes: Sequence[str]
    """For the model: what was cut, refused or scaled down, and what became of the process."""
