"""Small pictures for tests."""

import io

from PIL import Image

from gym_core.capture.images import make_data_url


def picture(kind: str = "PNG", color: str = "red", size: tuple[int, int] = (8, 6)) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", size, color).save(content, kind)
    return content.getvalue()


def data_url(content: bytes) -> str:
    return make_data_url(content)
