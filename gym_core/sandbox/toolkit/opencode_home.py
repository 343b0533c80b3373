"""The folder that keeps OpenCode from fetching anything: an empty model catalogue, and a config folder that counts as
installed.

OpenCode installs `@opencode-ai/plugin` into its config folder unless a lock file there names it and `node_modules`
exists; it writes `.gitignore` where there is none, and ends when it cannot. Measured with 1.17.11; no custom tool or
plugin is used.
"""

import json
from pathlib import Path


def write_opencode_home(folder: Path, version: str) -> None:
    """OpenCode takes it for its config folder when XDG_CONFIG_HOME is the folder above it and it is named opencode."""
    (folder / "node_modules").mkdir(parents=True)
    plugin: dict[str, object] = {"dependencies": {"@opencode-ai/plugin": version}}
    lock: dict[str, object] = {"name": "opencode", "lockfileVersion": 3, "requires": True, "packages": {"": plugin}}
    for name, content in (("models.json", dict[str, object]()), ("package.json", plugin), ("package-lock.json", lock)):
        (folder / name).write_text(json.dumps(content) + "\n", "utf-8")
    (folder / ".gitignore").write_text("node_modules\npackage.json\npackage-lock.json\n.gitignore\n", "utf-8")
