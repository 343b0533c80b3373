"""The sandbox image, built by an engine from `sandbox_image/Dockerfile` and the few files it copies."""

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.providers.docker.engine import BuildOptions, Engine
from gym_core.sandbox.toolkit.pins import image_folder

_PACKAGE = Path(__file__).resolve().parents[3]
_DOCKERFILE = "sandbox_image/Dockerfile"
_IMAGE_FILES = ("Dockerfile", "pins.toml", "requirements.lock")
_PACKAGE_FILES = (
    "__init__.py",
    "errors.py",
    "cli/__init__.py",
    "cli/sandbox.py",
    "sandbox/__init__.py",
    "sandbox/toolkit/*.py",
)


async def build_image(engine: Engine, options: BuildOptions, say: Callable[[str], None]) -> str:
    """The new image's id. Minutes, the first time. Raises SandboxUnavailable with the step that failed."""
    await engine.build(io.BytesIO(image_context()), options, say)
    image = await engine.image(options.tag)
    if image is None:
        raise SandboxUnavailable(f"docker: image {options.tag!r} was built and is not there")
    return image.id


def build_options(*, tag: str, arguments: dict[str, str], network: str | None) -> BuildOptions:
    return BuildOptions(tag=tag, dockerfile=_DOCKERFILE, arguments=arguments, network=network)


def image_context() -> bytes:
    """A tar file of what the Dockerfile copies; the same bytes as long as the files are."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in sorted(_files()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(info, file)
    return content.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    for name in _IMAGE_FILES:
        yield f"sandbox_image/{name}", image_folder() / name
    for pattern in _PACKAGE_FILES:
        for path in _PACKAGE.glob(pattern):
            yield f"gym_core/{path.relative_to(_PACKAGE)}", path
