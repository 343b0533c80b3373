"""Whole numbers in print, read from pixels: black digits of a plain sans-serif face, a number at a time."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
"""Rows, columns, RGB."""

_WIDTH, _HEIGHT = 10, 16
_DIGITS = {
    "0": 0x1E0FC61986C0F03C0F03C0F03C0F03619863F078,
    "1": 0x7C3F08C0300C0300C0300C0300C0300C030FFFFF,
    "2": 0x3E3FEC180700C030180E030180C06030180FFFFF,
    "3": 0x7E3FE0180700C060387C0380700C0300C06FF9F8,
    "4": 0x0701C0F02C1B04C3308C6330CC3BFF0300C0300C,
    "5": 0x7F9FE60180601F07F10E01C0300C0301E0EFF3F8,
    "6": 0x0F8FE70180C0300DF3CEE1F03C0F0360D863F878,
    "7": 0xFFFFF018060380C0301C060180C0301C060180E0,
    "8": 0x1F1FE61B03C0D86738FC73B87C0F03C0F877F8FC,
    "9": 0x1E1FC61B06C0F03C1F0773CFB00C060180E7F1F0,
}
"""The shape of each in 10x16 points, row by row, the highest bit first."""
_DARK = 128
"""Of the lightest channel: ink is black, whatever film lies over it; bars and outlines are not."""
_LEAST_HEIGHT_PX = 6


def _template(bits: int) -> NDArray[np.float64]:
    points = [float(point) for point in f"{bits:0{_WIDTH * _HEIGHT}b}"]
    return np.array(points).reshape(_HEIGHT, _WIDTH)


_TEMPLATES = {digit: _template(bits) for digit, bits in _DIGITS.items()}


def read_number(pixels: Pixels) -> int:
    """The one number in this part of a picture. Raises ValueError where nothing is printed."""
    light = pixels.max(axis=2)
    glyphs = [light[:, start:end] for start, end in runs((light < _DARK).any(axis=0))]
    digits = [digit for glyph in glyphs if (digit := _digit(glyph))]
    if not digits:
        raise ValueError("no number is printed where one was looked for")
    return int("".join(digits))


def runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where stretches of true begin and end, the end not included."""
    steps = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(start), int(end)) for start, end in zip(steps[::2], steps[1::2], strict=True)]


def _digit(light: Pixels) -> str | None:
    """None for a speck or a line."""
    rows = np.flatnonzero((light < _DARK).any(axis=1))
    glyph = light[rows[0] : rows[-1] + 1]
    if glyph.shape[0] < _LEAST_HEIGHT_PX:
        return None
    scaled = np.asarray(Image.fromarray(glyph).resize((_WIDTH, _HEIGHT), Image.Resampling.BOX), dtype=np.float64)
    ink = 1.0 - scaled / 255
    return min(_TEMPLATES, key=lambda digit: float(np.abs(ink - _TEMPLATES[digit]).sum()))
