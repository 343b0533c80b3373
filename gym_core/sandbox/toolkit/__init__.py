"""The toolkit: what every sandbox carries at `/opt/toolkit`: OpenCode, ripgrep, and Python with the image packages.

It is a folder in the cache, named by the hash of what it was made of, built once and never changed. Inside:

    bin/            opencode, rg, python3, python
    opencode/       models.json, and a config folder that needs no network (`XDG_CONFIG_HOME=/opt/toolkit`)
    lib/, python/   Python packages; an interpreter too, where the system's own does not serve
    manifest.json   every entry with its SHA-256, size and mode

Standard library only (and `gym_core.errors`): the image's build stage runs this with nothing but Python.
"""

from gym_core.sandbox.toolkit.build import build
from gym_core.sandbox.toolkit.manifest import Manifest, describe, read_manifest
from gym_core.sandbox.toolkit.plan import TOOLKIT_MOUNT, is_built, toolkit_dir
from gym_core.sandbox.toolkit.verify import verify

__all__ = ["TOOLKIT_MOUNT", "Manifest", "build", "describe", "is_built", "read_manifest", "toolkit_dir", "verify"]
