"""Small pictures whose content is known, for tools to work on."""

from PIL import Image, ImageDraw

WIDTH, HEIGHT = 200, 100
LEFT_SQUARE = (20, 30, 60, 70)
"""Red, 40 pixels a side."""
RIGHT_SQUARE = (130, 30, 150, 50)
"""Blue, 20 pixels a side."""


def two_squares() -> Image.Image:
    """A red and a blue square on white."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    for (left, top, right, bottom), color in ((LEFT_SQUARE, "red"), (RIGHT_SQUARE, "blue")):
        draw.rectangle([left, top, right - 1, bottom - 1], fill=color)
    return image


def one_square() -> Image.Image:
    """Without the blue one."""
    image = two_squares()
    image.paste("white", RIGHT_SQUARE)
    return image


def disc() -> Image.Image:
    """Black, of radius 30, in the middle of 120 x 120."""
    image = Image.new("RGB", (120, 120), "white")
    ImageDraw.Draw(image).ellipse([30, 30, 90, 90], fill="black")
    return image


def speckles() -> Image.Image:
    """22 500 white dots on black, in rows, none of which touches another."""
    dot = Image.new("L", (2, 2), "black")
    dot.putpixel((0, 0), 255)
    image = Image.new("RGB", (300, 300), "black")
    for top in range(0, 300, 2):
        for left in range(0, 300, 2):
            image.paste(dot, (left, top))
    return image


def stripes() -> Image.Image:
    """A long level line in black."""
    image = two_squares()
    image.paste("white", (0, 0, WIDTH, HEIGHT))
    ImageDraw.Draw(image).line([10, 50, 190, 50], fill="black", width=3)
    return image
