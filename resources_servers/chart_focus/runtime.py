"""What the sandbox's Python is given, and how the model is told what its code did."""

import json
from pathlib import Path

from gym_core.servers.python_runtime import Execution, Setup
from gym_core.servers.tools import ToolOutput
from resources_servers.chart_focus import focus_tools
from resources_servers.chart_focus.focus_tools import FOCUS_TOOLS
from resources_servers.chart_focus.task import ChartTask
from resources_servers.chart_focus.trajectory import RAN

FAILED = "OBSERVATION: the code failed."
NOTHING_SHOWN = "OBSERVATION: the code displayed no image."

_TOOLS_FILE, _BOXES_FILE, _IMAGE_FILE = "focus_tools.py", "boxes.json", "image_1"
_PRELUDE = f"""
import json as _json, sys as _sys
from PIL import Image
_sys.path.insert(0, str(FOLDER))
from focus_tools import {", ".join(FOCUS_TOOLS)}
with open(f"{{FOLDER}}/{_BOXES_FILE}", encoding="utf-8") as _file:
    globals().update(_json.load(_file))
with Image.open(f"{{FOLDER}}/{_IMAGE_FILE}") as _file:
    _seen = _file.convert("RGBA")
image_1 = Image.new("RGB", _seen.size, "white")
image_1.paste(_seen, mask=_seen)
del _file, _seen
"""


def chart_setup(task: ChartTask, image: bytes) -> Setup:
    """The twelve functions in a file of their own, `image_1`, and the boxes."""
    files = {
        _TOOLS_FILE: Path(focus_tools.__file__).read_bytes(),
        _BOXES_FILE: json.dumps(task.variables()).encode(),
        _IMAGE_FILE: image,
    }
    return Setup(files=files, prelude=_PRELUDE)


def observation(execution: Execution) -> ToolOutput:
    """An action works when the code ends without an error and displays an image: then the image is shown."""
    printed = "\n".join(part for part in (execution.text.strip(), *(f"[{note}]" for note in execution.notes)) if part)
    if execution.outcome == "ok" and execution.images:
        return ToolOutput([RAN, *execution.images, *([printed] if printed else [])])
    lead = NOTHING_SHOWN if execution.outcome == "ok" else FAILED
    return ToolOutput(["\n".join(part for part in (lead, printed) if part)])
