"""What the model's process finds: the images and videos of the row, and the pictures it made, each under its own name.

A picture that is shown as `image_clue_k` is a variable of that name from then on, as the prompt's images are: a model
that reads the tag writes the name. All are bound by the number of the image in the whole rollout, never by message.
"""

from collections import ChainMap
from collections.abc import MutableMapping, Sequence

from gym_core.servers.python_runtime import Setup
from resources_servers.pyvision.observation import clue_name
from resources_servers.pyvision.videos import READER_FILE, reader_source

_PRELUDE = f"""
import numpy as np
import matplotlib.pyplot as plt
from PIL import Image

def _bind_clues(names=None):
    import os
    for name in os.listdir(FOLDER) if names is None else names:
        if name.startswith({clue_name(0)[:-1]!r}):
            with Image.open(os.path.join(FOLDER, name)) as picture:
                globals()[name] = picture.convert("RGBA" if picture.has_transparency_data else "RGB")

_bind_clues()
"""
_VIDEOS = """
def _bind_videos(paths):
    import sys, types
    sys.path.insert(0, FOLDER)
    from video_reader import VideoReader
    sys.path.remove(FOLDER)
    decord = sys.modules["decord"] = types.ModuleType("decord")  # for code that imports what it knows
    decord.VideoReader = VideoReader
    decord.cpu = decord.gpu = lambda index=0: None
    for index, path in enumerate(paths):
        globals()[f"video_clue_{index}"] = VideoReader(path)

"""


def setup_of(images: MutableMapping[str, bytes], videos: Sequence[str]) -> Setup:
    """`images` by name; the mapping is read at each start, so what is added to it is there again in a new process.

    `videos` are paths inside, in order.
    """
    if not videos:
        return Setup(images, _PRELUDE)
    files = ChainMap({}, {READER_FILE: reader_source().encode()}, images)
    return Setup(files, f"{_PRELUDE}{_VIDEOS}_bind_videos({list(videos)!r})\n")


def binding_of(names: Sequence[str]) -> str:
    """Code that binds pictures whose files are in the folder by now."""
    return f"_bind_clues({list(names)!r})"
