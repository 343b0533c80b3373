"""Write Python and read what it says: a first look that goes wrong, as it does where an object is not known yet, then a
measurement with a picture of it, then the answer that was printed. One player for images, one for videos.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from model_servers.scripted_model.chat import Turn
from model_servers.scripted_model.players.contract import Player, View

_FOUND = re.compile(r"^FOUND: (.{1,200})$", re.MULTILINE)
_LOOK_AT_IMAGE = """
print(image_clue_0.size, image_clue_0.mode)
print("dots per inch:", image_clue_0.info["dpi"])
"""
_LOOK_AT_VIDEO = """
print(len(video_clue_0), "frames of", video_clue_0[0].asnumpy().shape)
print("frames a second:", video_clue_0.fps)
"""
_TINY_MARK = """
page = np.asarray(image_clue_0.convert("L"))
ys, xs = np.nonzero(page < 90)
y, x = int(ys.mean()), int(xs.mean())
plt.imshow(image_clue_0.crop((x - 30, y - 30, x + 30, y + 30)).resize((480, 480)))
plt.title(f"around ({{x}}, {{y}})")
plt.show()
row, column = y * {rows} // page.shape[0] + 1, x * {columns} // page.shape[1] + 1
print(f"FOUND: ({{row}},{{column}})")
"""
_TWO_PICTURES = """
first, second = (np.asarray(picture.convert("RGB")).astype(int) for picture in (image_clue_0, image_clue_1))
apart = np.abs(first - second).max(axis=2)
ys, xs = np.nonzero(apart > 30)
plt.imshow(apart)
plt.show()
height, width = apart.shape
row, column = int(ys.mean()) * {rows} // height + 1, int(xs.mean()) * {columns} // width + 1
print(f"FOUND: ({{row}},{{column}})")
"""
_COUNT_DISCS = """
from scipy import ndimage
named = {{"red": (210, 45, 45), "green": (45, 150, 70), "blue": (50, 85, 205), "orange": (235, 140, 40),
         "purple": (130, 60, 160), "paper": (246, 246, 242)}}
pixels = np.asarray(image_clue_0.convert("RGB")).astype(int)
distance = np.stack([((pixels - np.array(shade)) ** 2).sum(axis=2) for shade in named.values()])
is_wanted = distance.argmin(axis=0) == list(named).index("{color}")
parts, count = ndimage.label(is_wanted)
plt.imshow(parts)
plt.show()
print("FOUND:", count)
"""
_FILLED_PART = """
from fractions import Fraction
red, green, blue = np.moveaxis(np.asarray(image_clue_0.convert("RGB")).astype(int), 2, 0)
n_blue, n_orange = int((blue - red > 60).sum()), int((red - blue > 60).sum())
plt.bar(["blue", "orange"], [n_blue, n_orange])
plt.show()
print("FOUND:", Fraction(n_blue, n_blue + n_orange).limit_denominator(20))
"""
_SHEET = """
frames = video_clue_0.get_batch(range(len(video_clue_0))).asnumpy()
picked = [index * (len(frames) - 1) // 11 for index in range(12)]
figure, axes = plt.subplots(3, 4, figsize=(8, 5))
for axis, index in zip(axes.flat, picked):
    axis.imshow(frames[index])
    axis.set_title(f"{{video_clue_0.get_frame_timestamp(index)[0]:.2f}} s")
    axis.axis("off")
plt.show()
frames = frames.astype(int)
"""
_FLASHES = (
    _SHEET
    + """
is_bright = frames.mean(axis=(1, 2, 3)) > 150
print("FOUND:", int(is_bright[0]) + int((is_bright[1:] & ~is_bright[:-1]).sum()))
"""
)
_CHANGED_FRAME = (
    _SHEET
    + """
usual = np.median(frames, axis=0)
print("FOUND:", int(np.abs(frames - usual).mean(axis=(1, 2, 3)).argmax()))
"""
)
_COLOR_ORDER = (
    _SHEET
    + """
named = {{"red": (215, 40, 40), "green": (40, 170, 70), "blue": (40, 70, 215), "yellow": (235, 215, 50),
         "white": (235, 235, 235), "black": (15, 15, 15)}}
order = []
for shade in frames.mean(axis=(1, 2)):
    name = min(named, key=lambda name: ((shade - np.array(named[name])) ** 2).sum())
    if not order or order[-1] != name:
        order.append(name)
print("FOUND:", ", ".join(order))
"""
)


@dataclass(frozen=True)
class _Method:
    """A program for the questions that its pattern occurs in; the pattern's groups are put into it."""

    asked: re.Pattern[str]
    program: str

    def code_for(self, question: str) -> str | None:
        found = self.asked.search(question)
        return self.program.format(**found.groupdict()) if found else None


_GRID = r"(?P<rows>\d{1,3}) rows and (?P<columns>\d{1,3}) columns"
_IMAGE_METHODS = (
    _Method(re.compile(_GRID + r"\. One cell holds a tiny dark dot"), _TINY_MARK),
    _Method(re.compile(_GRID + r" of coloured squares\. They are the same but for one"), _TWO_PICTURES),
    _Method(re.compile(r"How many (?P<color>[a-z]{3,10}) discs are in the picture"), _COUNT_DISCS),
    _Method(re.compile(r"What part of the bar is blue"), _FILLED_PART),
)
_VIDEO_METHODS = (
    _Method(re.compile(r"How many times does the picture flash"), _FLASHES),
    _Method(re.compile(r"in one single frame a shape is missing"), _CHANGED_FRAME),
    _Method(re.compile(r"shows plain colours, one after the other"), _COLOR_ORDER),
)


def _player_of(name: str, question: str, look: str, methods: Sequence[_Method]) -> Player:
    def play(view: View) -> Turn:
        code = next((code for method in methods if (code := method.code_for(view.question))), None)
        found = _FOUND.search(view.results[-1]) if view.results else None
        if found:
            return Turn(f"I measured it. <answer>\\boxed{{{found[1].strip()}}}</answer>")
        if not view.results:
            return _turn("I look at what I have.", look)
        return _turn("So that is not known. I measure it.", code) if code and len(view.results) == 1 else _guess(view)

    return Player(name, question, play, _guess)


def _guess(view: View) -> Turn:
    return Turn("This is a guess. <answer>\\boxed{1}</answer>")


def _turn(said: str, code: str) -> Turn:
    return Turn(f"{said}\n<code>\n```python\n{code.strip()}\n```\n</code>")


PYVISION_IMAGE = _player_of(
    "pyvision_image", "The images are in the session too, as Pillow images", _LOOK_AT_IMAGE, _IMAGE_METHODS
)
PYVISION_VIDEO = _player_of(
    "pyvision_video", "You are not shown the video: sample frames", _LOOK_AT_VIDEO, _VIDEO_METHODS
)
