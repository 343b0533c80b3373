"""Small videos drawn from a seed and encoded by PyAV, each with a question and its exact gold."""

import io
import random
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.pyvision.clues import Question, VideoClue, VideoFacts

SOURCE = "drawn_videos"
WIDTH, HEIGHT, FPS = 160, 120, 12
COLORS = {
    "red": (214, 40, 40),
    "green": (40, 170, 70),
    "blue": (40, 70, 214),
    "yellow": (236, 214, 50),
    "white": (236, 236, 236),
    "black": (16, 16, 16),
}
_BIT_RATE = 600_000


def draw_video_questions(seed: int, per_kind: int) -> list[Question]:
    """Raises ValueError where PyAV is missing."""
    return [
        kind(f"{seed}-{name}-{index}", random.Random(f"pyvision_video/{seed}/{name}/{index}"))
        for name, kind in KINDS.items()
        for index in range(per_kind)
    ]


def _flashes(id_: str, rng: random.Random) -> Question:
    """A dim picture that is bright for two or three frames now and then."""
    count = rng.randint(3, 8)
    frames: list[Image.Image] = []
    for _ in range(count):
        frames += [_plain((44, 48, 60))] * rng.randint(4, 9)
        frames += [_plain((240, 240, 230))] * rng.randint(2, 3)
    frames += [_plain((44, 48, 60))] * rng.randint(4, 9)
    asked = "How many times does the picture flash white in the video? Answer with a number."
    return _question(id_, asked, str(count), "counting events", "int", frames)


def _changed_frame(id_: str, rng: random.Random) -> Question:
    """A still scene of shapes, one of which is missing in one frame."""
    total = rng.randint(36, 60)
    odd = rng.randint(3, total - 4)
    places = [(x, y) for x in range(8, 150, 38) for y in range(6, 110, 38)]
    shapes = [(place, rng.choice(list(COLORS))) for place in rng.sample(places, 8)]
    missing = rng.randrange(len(shapes))
    whole, lacking = _scene(shapes), _scene(shapes[:missing] + shapes[missing + 1 :])
    frames = [lacking if index == odd else whole for index in range(total)]
    asked = (
        "The video is a still picture, but in one single frame a shape is missing. Which frame is it? Answer with its "
        "number, counted from 0."
    )
    return _question(id_, asked, str(odd), "temporal localisation", "int", frames)


def _color_order(id_: str, rng: random.Random) -> Question:
    """Plain colours, one after the other, never the same one twice in a row."""
    names = [rng.choice(list(COLORS))]
    for _ in range(rng.randint(3, 5)):
        names.append(rng.choice([name for name in COLORS if name != names[-1]]))
    frames = [_plain(COLORS[name]) for name in names for _ in range(rng.randint(5, 12))]
    asked = (
        f"The video shows plain colours, one after the other. List them in the order in which they come, separated by "
        f"commas; one that comes again is listed again. The colours are among: {', '.join(COLORS)}."
    )
    return _question(id_, asked, ", ".join(names), "temporal order", "seq", frames)


KINDS: dict[str, Callable[[str, random.Random], Question]] = {
    "flashes": _flashes,
    "changed_frame": _changed_frame,
    "color_order": _color_order,
}


def _plain(color: tuple[int, int, int]) -> Image.Image:
    return Image.new("RGB", (WIDTH, HEIGHT), color)


def _scene(shapes: Sequence[tuple[tuple[int, int], str]]) -> Image.Image:
    picture = _plain((128, 128, 128))
    draw = ImageDraw.Draw(picture)
    for (x, y), name in shapes:
        draw.rectangle((x, y, x + 25, y + 25), fill=COLORS[name])
    return picture


def _question(id_: str, asked: str, gold: str, ability: str, kind: str, frames: Sequence[Image.Image]) -> Question:
    content = encode_mp4(frames, fps=FPS)
    facts = VideoFacts.of_content(content)
    if facts.frames != len(frames):
        raise ValueError(f"{id_}: {len(frames)} frames were drawn and {facts.frames} are read")
    clue = VideoClue.inline(content, facts)
    return Question(id_, asked, gold, ability, SOURCE, (clue,), grader="match", answer_kind=kind)


def encode_mp4(frames: Sequence[Image.Image], *, fps: int) -> bytes:
    """MPEG-4 part 2, which every build of FFmpeg writes. Raises ValueError where PyAV is missing."""
    try:
        import av
    except ImportError as error:
        raise ValueError("videos are drawn by PyAV: pip install 'visual-agent-gym[video]'") from error
    content = io.BytesIO()
    with av.open(content, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=fps)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = *frames[0].size, "yuv420p", _BIT_RATE
        for frame in frames:
            pixels = np.asarray(frame, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return content.getvalue()
