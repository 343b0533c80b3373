"""Enhancement: the same picture with other light, contrast, sharpness or colours."""

from typing import Annotated

import cv2
import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from .arguments import Choice, Number, Whole
from .contract import Made, Pixels, View, made

_CHANNELS = ("red", "green", "blue", "hue", "saturation", "value")
_SAMPLED_SIDE = 256
"""Colours are chosen from so few pixels: of all of them it would take minutes."""

Factor = Annotated[float, Number(0, 10, "1 changes nothing")]


def brightness(view: View, factor: Factor) -> Made:
    """Make an image brighter or darker."""
    return made(f"{view.name}, brightness times {factor:g}.", ImageEnhance.Brightness(view.image).enhance(factor))


def contrast(view: View, factor: Factor) -> Made:
    """Give an image more contrast or less."""
    return made(f"{view.name}, contrast times {factor:g}.", ImageEnhance.Contrast(view.image).enhance(factor))


def saturation(view: View, factor: Factor) -> Made:
    """Make an image's colours stronger or paler."""
    return made(f"{view.name}, saturation times {factor:g}.", ImageEnhance.Color(view.image).enhance(factor))


def gamma(view: View, gamma: Annotated[float, Number(0.1, 10, "Below 1 dark parts become brighter")]) -> Made:
    """Change how bright the middle tones of an image are; black and white stay."""
    table = [round(255 * (level / 255) ** gamma) for level in range(256)]
    return made(f"{view.name}, gamma {gamma:g}.", view.image.point(table * 3))


def sharpen(view: View, percent: Annotated[int, Whole(10, 500, "Strength")] = 150) -> Made:
    """Make the edges of an image crisper."""
    crisp = view.image.filter(ImageFilter.UnsharpMask(radius=2, percent=percent, threshold=2))
    return made(f"{view.name}, sharpened by {percent} %.", crisp)


def blur(view: View, radius: Annotated[float, Number(0.5, 50, "In pixels")] = 2) -> Made:
    """Smooth a whole image."""
    return made(f"{view.name}, blurred by {radius:g} pixels.", view.image.filter(ImageFilter.GaussianBlur(radius)))


def denoise(view: View, size: Annotated[int, Whole(1, 5, "1 for specks, 5 for coarse noise")] = 1) -> Made:
    """Remove specks and noise from an image and keep its edges."""
    smooth: Pixels = cv2.medianBlur(view.pixels, 2 * size + 1)
    return made(f"{view.name}, noise removed (median of {2 * size + 1} pixels).", smooth)


def equalize(
    view: View, method: Annotated[str, Choice(("global", "local"), "local works part by part")] = "global"
) -> Made:
    """Spread an image's brightness over the whole range, to see what is too dark or too pale."""
    if method == "global":
        luminance, blue, red = Image.fromarray(view.pixels).convert("YCbCr").split()
        merged = Image.merge("YCbCr", (ImageOps.equalize(luminance), blue, red))
        return made(f"{view.name}, brightness equalized.", merged.convert("RGB"))
    lab = cv2.cvtColor(view.pixels, cv2.COLOR_RGB2LAB)
    lab[:, :, 0] = cv2.createCLAHE(clipLimit=3.0, tileGridSize=(8, 8)).apply(lab[:, :, 0])
    picture: Pixels = cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)
    return made(f"{view.name}, brightness equalized part by part.", picture)


def autocontrast(view: View, cutoff: Annotated[float, Number(0, 20, "Percent of the extremes to ignore")] = 1) -> Made:
    """Stretch an image so that its darkest pixels are black and its brightest white."""
    return made(f"{view.name}, contrast stretched.", ImageOps.autocontrast(view.image, cutoff=cutoff))


def threshold(
    view: View,
    level: Annotated[
        int | None, Whole(0, 255, "Pixels brighter than this become white; without it the best level is found")
    ] = None,
) -> Made:
    """Turn an image into pure black and white."""
    if level is None:
        level = int(cv2.threshold(view.gray, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)[0])
    picture = np.where(view.gray > level, 255, 0).astype(np.uint8)
    white = float((picture > 0).mean())
    return made(f"{view.name} in black and white, split at level {level}: {white:.1%} white.", picture)


def adaptive_threshold(
    view: View, window: Annotated[int, Whole(3, 99, "Size of the neighbourhood in pixels")] = 15
) -> Made:
    """Black and white by comparison with the neighbourhood: for uneven light, such as photographed paper."""
    odd = window | 1
    picture: Pixels = cv2.adaptiveThreshold(view.gray, 255, cv2.ADAPTIVE_THRESH_GAUSSIAN_C, cv2.THRESH_BINARY, odd, 7)
    return made(f"{view.name} in black and white by a neighbourhood of {odd} pixels.", picture)


def invert(view: View) -> Made:
    """The negative of an image."""
    return made(f"{view.name}, inverted.", ImageOps.invert(view.image))


def grayscale(view: View) -> Made:
    """An image without its colours."""
    return made(f"{view.name} in grey.", view.gray.copy())


def channel(view: View, channel: Annotated[str, Choice(_CHANNELS, "Which one")]) -> Made:
    """One channel of an image as a grey picture."""
    index = _CHANNELS.index(channel)
    planes = view.pixels if index < 3 else cv2.cvtColor(view.pixels, cv2.COLOR_RGB2HSV_FULL)
    plane: Pixels = np.ascontiguousarray(planes[:, :, index % 3])
    return made(f"The {channel} channel of {view.name}.", plane)


def posterize(view: View, colors: Annotated[int, Whole(2, 64, "How many are kept")] = 8) -> Made:
    """Reduce an image to its few most important colours."""
    small = view.image.copy()
    small.thumbnail((_SAMPLED_SIDE, _SAMPLED_SIDE), Image.Resampling.NEAREST)
    palette = small.quantize(colors, Image.Quantize.MEDIANCUT)
    few = view.image.quantize(palette=palette, dither=Image.Dither.NONE)
    return made(f"{view.name} in {colors} colours at most.", few.convert("RGB"))


def morphology(
    view: View,
    operation: Annotated[str, Choice(("erode", "dilate", "open", "close"), "On the bright parts")],
    size: Annotated[int, Whole(1, 25, "In pixels")] = 1,
) -> Made:
    """Shrink (erode), grow (dilate), clean (open) or fill (close) the bright parts of an image."""
    kinds = {"erode": cv2.MORPH_ERODE, "dilate": cv2.MORPH_DILATE, "open": cv2.MORPH_OPEN, "close": cv2.MORPH_CLOSE}
    brush = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * size + 1, 2 * size + 1))
    picture: Pixels = cv2.morphologyEx(view.pixels, kinds[operation], brush)
    return made(f"{view.name}, {operation} by {size} pixels.", picture)


TOOLS = (
    *(brightness, contrast, saturation, gamma, sharpen, blur, denoise, equalize, autocontrast),
    *(threshold, adaptive_threshold, invert, grayscale, channel, posterize, morphology),
)
KEEPS_PLACES = TOOLS
