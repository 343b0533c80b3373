"""Every image tool runs with what a sandbox carries, from the one file that gets there."""

import os
import subprocess
from pathlib import Path

import pytest

from gym_core.image_tools import all_tools
from gym_core.image_tools.archive import package_archive
from gym_core.sandbox import toolkit
from tests.live.gyms import needs_toolkit
from tests.unit.image_tools.pictures import two_squares

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_toolkit]

PROGRAM = """
import json
from PIL import Image
import image_tools

ARGUMENTS = {
    "box": [0.05, 0.2, 0.4, 0.8], "factor": 2, "degrees": 33, "direction": "left_right", "pixels": 10,
    "corners": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]], "start": [0, 0], "end": [1, 1],
    "points": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9]], "center": [0.5, 0.5], "radius": 5, "text": "hello",
    "point": [0.1, 0.1], "gamma": 2, "channel": "hue", "operation": "open", "color": "red",
    "vertex": [0.2, 0.2], "first": [0.3, 0.3], "second": [0.4, 0.9],
}
IMAGES = {"one": {}, "two": {"image": 0, "other_image": 1}, "several": {"images": [0, 1]}}
pictures = [Image.open("picture.png")] * 2
said = {}
for name, tool in image_tools.all_tools().items():
    needed = {key: ARGUMENTS[key] for key in tool.arguments if key not in tool.defaults}
    said[name] = image_tools.run(name, pictures, needed | IMAGES[tool.takes]).text
print(json.dumps(list(said)))
"""


def test_every_tool_runs_in_the_python_of_a_sandbox(tmp_path: Path) -> None:
    (tmp_path / "image_tools.zip").write_bytes(package_archive())
    two_squares().save(tmp_path / "picture.png")
    python = toolkit.toolkit_dir() / "bin" / "python3"
    found = subprocess.run(
        [python, "-W", "error", "-c", PROGRAM],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": "image_tools.zip"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.strip() == str(list(all_tools())).replace("'", '"')
