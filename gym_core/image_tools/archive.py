"""The image tools as one file for a sandbox, whose Python has Pillow, numpy and OpenCV but not the gym.

    await sandbox.write("image_tools.zip", package_archive())

There, with `PYTHONPATH=image_tools.zip` (or the path put first in `sys.path`), `import image_tools` works.
"""

import io
import zipfile
from pathlib import Path

PACKAGE = "image_tools"
"""Its name in a sandbox."""

_MADE_AT = (1980, 1, 1, 0, 0, 0)
"""The same archive from the same sources."""


def package_archive() -> bytes:
    """A zip that Python imports `image_tools` from."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(Path(__file__).parent.glob("*.py")):
            archive.writestr(zipfile.ZipInfo(f"{PACKAGE}/{path.name}", _MADE_AT), path.read_bytes())
    return content.getvalue()
