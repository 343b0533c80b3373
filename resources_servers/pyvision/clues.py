"""What the model's process finds: the images and videos of the row, and the pictures it made, each under its own name.

A picture that is shown as `image_clue_k` is a variable of that name from then on, as the prompt's images are: a model
that reads the tag writes the name. All are bound by the number of the image in the whole rollout, never by message.
"""

from collections import ChainMap
from collections.abc import MutableMapping, Sequence

from gym_core.servers.python_runtime import Setup
from resources_servers.pyvision.observation import clue_name
from resources_servers.pyvision.videos import READER_FILE, reader_source

BINDING_TIMEOUT_S = 10.0
"""For the files of one execution's pictures, and again for the code that reads them: a tenth of a second each where
nothing of the model's stands in the way.
"""

_NAMES = """
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
"""
_IMAGES = f"""
import os
import __main__
from PIL import Image

for name in os.listdir(folder) if names is None else names:
    if name.startswith({clue_name(0)[:-1]!r}):
        with Image.open(os.path.join(folder, name)) as picture:
            mode = "RGBA" if picture.has_transparency_data else "RGB"
            __main__.__dict__[name] = picture.convert(mode)
"""
_VIDEOS = """
import sys
import types
import __main__

sys.path.insert(0, folder)
from video_reader import VideoReader
sys.path.remove(folder)
decord = sys.modules["decord"] = types.ModuleType("decord")  # for code that imports what it knows
decord.VideoReader = VideoReader
decord.cpu = decord.gpu = lambda index=0: None
for index, path in enumerate(paths):
    __main__.__dict__[f"video_clue_{index}"] = VideoReader(path)
"""


def setup_of(images: MutableMapping[str, bytes], videos: Sequence[str]) -> Setup:
    """`images` by name; the mapping is read at each start, so what is added to it is there again in a new process.

    `videos` are paths inside, in order.
    """
    prelude = _NAMES + _apart(_IMAGES, folder="FOLDER", names="None")
    if not videos:
        return Setup(images, prelude)
    files = ChainMap({}, {READER_FILE: reader_source().encode()}, images)
    return Setup(files, prelude + _apart(_VIDEOS, folder="FOLDER", paths=repr(list(videos))))


def binding_of(names: Sequence[str], folder: str) -> str:
    """Code that binds pictures whose files are in the folder by now, whatever the model's names are bound to."""
    return _apart(_IMAGES, folder=repr(folder), names=repr(list(names)))


def _apart(source: str, **given: str) -> str:
    """Code that runs `source` with names of its own, so that it neither meets the model's nor adds any.

    `given` are names that it finds, each with the expression of its value.
    """
    names = ", ".join(f"{name!r}: {expression}" for name, expression in given.items())
    return f"__import__('builtins').exec({source!r}, {{{names}}})\n"
