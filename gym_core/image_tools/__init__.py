"""Image tools: pure functions from an image, or several, to new pictures and words.

    from gym_core.image_tools import Coordinates, run
    made = run("zoom", [picture], {"box": [400, 300, 600, 500]}, coordinates=Coordinates.THOUSANDTHS)

They need Pillow, numpy and OpenCV and nothing of the rest of the gym, so the same package works inside a sandbox as
`import image_tools` (`gym_core/image_tools/archive.py` says how it gets there). Imports in it are relative for that,
and nothing in it has the package's name there, which `from image_tools import *` would put in its place.
"""

from .contract import ImageToolError, Made
from .places import Coordinates
from .registry import ImageTool, all_tools, chosen_tools, run

__all__ = ["Coordinates", "ImageTool", "ImageToolError", "Made", "all_tools", "chosen_tools", "run"]
