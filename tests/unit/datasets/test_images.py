"""Images from strangers: typed by content, bounded, whole."""

import hashlib
import io
from pathlib import Path

import pytest
from PIL import Image

from gym_core.datasets.images import PreparedImage

IMAGES = Path(__file__).parents[2] / "data" / "images"


def encoded(image: Image.Image, image_format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, image_format, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("image_format", "media_type"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")]
)
def test_what_models_take_is_kept_byte_for_byte(image_format: str, media_type: str) -> None:
    content = encoded(Image.new("RGB", (40, 30), "teal"), image_format)
    prepared = PreparedImage.from_bytes(content, row="row 1")
    assert prepared.content == content
    assert (prepared.media_type, prepared.width, prepared.height) == (media_type, 40, 30)
    assert prepared.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", ["horse.png", "chessboard_GRAY.png", "palette_color.png"])
def test_odd_png_modes_are_kept(name: str) -> None:
    content = (IMAGES / name).read_bytes()
    assert PreparedImage.from_bytes(content, row=name).content == content


@pytest.mark.parametrize("name", ["multipage.tif", "no_time_for_that_tiny.gif"])
def test_other_formats_become_a_png_of_their_first_frame(name: str) -> None:
    content = (IMAGES / name).read_bytes()
    original = Image.open(io.BytesIO(content))
    prepared = PreparedImage.from_bytes(content, row=name)
    png = Image.open(io.BytesIO(prepared.content))
    assert (prepared.media_type, png.format, png.size) == ("image/png", "PNG", original.size)
    assert png.convert("RGB").tobytes() == original.convert("RGB").tobytes()


def test_a_bitmap_and_a_cmyk_tiff_become_png() -> None:
    for content in (
        encoded(Image.new("RGB", (3, 2), "red"), "BMP"),
        encoded(Image.new("CMYK", (3, 2)), "TIFF"),
    ):
        assert PreparedImage.from_bytes(content, row="r").media_type == "image/png"


def test_an_animated_webp_is_stilled() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    content = encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    assert PreparedImage.from_bytes(content, row="r").media_type == "image/png"


def test_orientation_tags_are_not_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(Image.new("RGB", (40, 30)), "JPEG", exif=exif)
    prepared = PreparedImage.from_bytes(content, row="r")
    assert (prepared.width, prepared.height) == (40, 30)


def test_a_picture_of_4000_by_4000_passes() -> None:
    content = encoded(Image.new("L", (4000, 4000)), "PNG", compress_level=1)
    assert PreparedImage.from_bytes(content, row="r").width == 4000


def test_too_many_pixels_are_refused_by_the_header_alone() -> None:
    content = encoded(Image.new("1", (300, 300)), "PNG")
    header_only = content[:60]
    with pytest.raises(ValueError, match="row 7: .*300x300 pixels are more than 1000"):
        PreparedImage.from_bytes(header_only, row="row 7", max_pixels=1000)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no image at all",
        (IMAGES / "truncated.jpg").read_bytes(),
        (IMAGES / "horse.png").read_bytes()[:-4000],
        (IMAGES / "horse.png").read_bytes()[:-12],
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    ],
    ids=["empty", "text", "cut JPEG", "cut PNG", "PNG without end", "svg"],
)
def test_a_broken_image_is_an_error_that_names_its_row(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^row 12: image of \d+ bytes") as caught:
        PreparedImage.from_bytes(content, row="row 12")
    assert "object at 0x" not in str(caught.value)
