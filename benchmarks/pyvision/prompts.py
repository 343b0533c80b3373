"""What a model is told, in PyVision's form: how to act, each clue between tags that name it, the question."""

from collections.abc import Sequence

from benchmarks.pyvision.clues import ImageClue, VideoClue
from gym_core.capture.images import make_reference
from gym_core.types.wire import JsonObject

_ACT = """Answer the question below. Think it through, and use Python for what a glance does not tell you: you have a \
session in which your code runs, and you are shown what it prints and draws.

- Write the code of a turn in one block, at its end:
<code>
```python
print("hello")
```
</code>
- What you define stays until the end. `np` is numpy, `plt` is matplotlib.pyplot, `Image` is Pillow's. No network.
- Print what you want to read. Draw what you want to see and call plt.show(): the picture comes back between tags such \
as <image_clue_{next}>, and is a variable of that name from then on, a Pillow image.
- {clues}
- Once you are sure, write no code any more and end with the answer alone in this form:
<answer>\\boxed{{your answer}}</answer>
"""
_IMAGES = (
    "The images are in the session too, as Pillow images named after their tags. You are shown them small if they are "
    "large: crop one and enlarge the part to read what is tiny."
)
_VIDEOS = (
    "You are not shown the video: sample frames, draw them, and look at more where it matters. It is in the session as "
    "an object with the interface of decord's VideoReader: len(v), v[i].asnumpy() (height x width x RGB), "
    "v.get_batch([i, j]).asnumpy(), v.get_avg_fps(), v.get_frame_timestamp(i)."
)


def image_content(images: Sequence[ImageClue], question: str) -> list[JsonObject]:
    """The content of the user's message; its images are references into the dataset's assets."""
    content = [_text(_ACT.format(next=len(images), clues=_IMAGES))]
    for index, image in enumerate(images):
        name = f"image_clue_{index}"
        content += [
            _text(f"<{name}>"),
            {"type": "input_image", "image_url": make_reference(image.prepared.sha256), "detail": "auto"},
            _text(f"</{name}>\nWidth of {name}: {image.prepared.width}; height: {image.prepared.height}"),
        ]
    return [*content, _text(f"\nQuestion: {question}")]


def video_content(videos: Sequence[VideoClue], question: str) -> list[JsonObject]:
    """One text: the videos are in the runtime alone."""
    told = [_ACT.format(next=0, clues=_VIDEOS)]
    for index, video in enumerate(videos):
        name, facts = f"video_clue_{index}", video.facts
        told.append(
            f"<{name}>\nWidth: {facts.width}; height: {facts.height}; frames: {facts.frames}; "
            f"frames a second: {facts.fps:.6g}; length: {facts.seconds:.6g} seconds\n</{name}>"
        )
    return [_text("\n".join([*told, f"\nQuestion: {question}"]))]


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}
