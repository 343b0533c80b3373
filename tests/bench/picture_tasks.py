"""A data set of single questions, each with a picture of its own, and the configuration that runs them."""

import json
import random
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image

from gym_core.capture.images import AssetStore, make_reference
from tests.bench.endpoint import ANSWER

SIDE_PIXELS = 320
"""320 x 320 pixels of noise do not compress: about 300 KB."""


@dataclass(frozen=True)
class PictureTasks:
    folder: Path
    config: Path
    image_bytes: int
    """Of all pictures, each once."""

    @property
    def rows(self) -> Path:
        return self.folder / "pictures.jsonl"

    @property
    def pictures(self) -> list[Path]:
        return sorted((self.folder / "pictures_assets").iterdir())


def write_picture_tasks(folder: Path, count: int) -> PictureTasks:
    """Golds are what the benchmarks' endpoint says, so that every rollout is graded and right."""
    folder.mkdir(parents=True)
    config, rows = folder / "pictures.yaml", folder / "pictures.jsonl"
    store, rng, image_bytes, lines = AssetStore(folder / "pictures_assets"), random.Random(0), 0, []
    for index in range(count):
        content = _noise(rng)
        image_bytes += len(content)
        parts = [
            {"type": "input_image", "image_url": make_reference(store.put(content)), "detail": "auto"},
            {"type": "input_text", "text": f"Question {index}: what is six times seven? Answer in a box."},
        ]
        message = {"type": "message", "role": "user", "content": parts}
        lines.append(json.dumps({"responses_create_params": {"input": [message]}, "phrase": ANSWER}))
    rows.write_text("\n".join(lines) + "\n")
    config.write_text(_CONFIG.format(rows=rows))
    return PictureTasks(folder, config, image_bytes)


def _noise(rng: random.Random) -> bytes:
    image = Image.frombytes("RGB", (SIDE_PIXELS, SIDE_PIXELS), rng.randbytes(SIDE_PIXELS * SIDE_PIXELS * 3))
    png = BytesIO()
    image.save(png, "PNG", compress_level=0)
    return png.getvalue()


_CONFIG = """
echo:
  resources_servers:
    echo: {{}}

single_call_agent:
  responses_api_agents:
    single_call:
      model_server: {{type: responses_api_models, name: policy_model}}

pictures:
  environment_servers:
    single_agent_turn_legacy:
      resources_server: {{type: resources_servers, name: echo}}
      agent_server: {{type: responses_api_agents, name: single_call_agent}}
      datasets:
        - name: pictures
          type: benchmark
          jsonl_fpath: {rows}
"""
