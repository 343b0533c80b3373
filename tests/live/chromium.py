"""A real Chromium for tests: the one that `GYM_TEST_CHROMIUM` names, one on the path, or Debian's, unpacked."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.live.debian_packages import NoPackages, library_path, unpacked

PROGRAM = "GYM_TEST_CHROMIUM"

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PACKAGES = ("chromium", "chromium-common")
"""Named one by one: the program looks for the files of the second beside itself, also where that is installed."""
_FONT_PACKAGES = ("fonts-inter", "fonts-jetbrains-mono", "fonts-dejavu-core")
"""The first two make pages look the same wherever pictures of them are taken; the third has more alphabets."""

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir>{cache}</cachedir>
  {aliases}
</fontconfig>
"""
_ALIAS = "<alias><family>{family}</family><prefer><family>{font}</family><family>DejaVu Sans</family></prefer></alias>"
_ALIASES = {
    "sans-serif": "Inter",
    "system-ui": "Inter",
    "monospace": "JetBrains Mono",
    "ui-monospace": "JetBrains Mono",
}


class NoBrowser(Exception):
    """Why none can be had here."""


@dataclass(frozen=True)
class Chromium:
    program: Path
    env: dict[str, str]


def find_chromium() -> Chromium:
    """Downloads one where there is none: a minute or two, once on a machine. Raises NoBrowser."""
    named = os.environ.get(PROGRAM)
    program = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if program:
        if not os.access(program, os.X_OK):
            raise NoBrowser(f"{PROGRAM}={program}: no program")
        return Chromium(Path(program), os.environ | _fonts_env())
    try:
        root = unpacked("chromium", _PACKAGES)
    except NoPackages as error:
        raise NoBrowser(f"no Chromium on the path ({PROGRAM} may name one), and {error}") from error
    env = os.environ | _fonts_env() | {"LD_LIBRARY_PATH": library_path(root)}
    return Chromium(root / "usr/lib/chromium/chromium", env)


def _fonts_env() -> dict[str, str]:
    """Empty where they cannot be had: pages then have the system's."""
    try:
        return {"FONTCONFIG_FILE": str(_write_fonts_file(unpacked("fonts", _FONT_PACKAGES)))}
    except NoPackages:
        return {}


def _write_fonts_file(root: Path) -> Path:
    aliases = "\n  ".join(_ALIAS.format(family=family, font=font) for family, font in _ALIASES.items())
    content = _FONTS.format(fonts=root / "usr/share/fonts", cache=root / "cache", aliases=aliases)
    path = root / "fonts.conf"
    if not path.exists() or path.read_text() != content:
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(content)
        partial.replace(path)
    return path


if __name__ == "__main__":
    try:
        print(find_chromium().program)
    except NoBrowser as error:
        sys.exit(f"no browser for tests: {error}")
