"""What the model's code shows becomes PNG files, whichever of the usual ways it takes: runs in a sandbox's process.

plt.show(), fig.show(), figures left open, display(x), Image.show(), cv2.imshow, and a last expression that is a figure
or a picture. Functions of the libraries are replaced when those are imported, never words in the code. It imports the
standard library alone, and no library before the model's code does.
"""

from __future__ import annotations

import importlib.util
import io
import math
import struct
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any  # objects of libraries that are not there when this is checked

    Patch = Callable[[Any], None]

PNG_SIZE = struct.Struct(">2I")
PNG_SIZE_AT = 16
COMPRESS_LEVEL = 3
"""Half the time of the usual 6, for a tenth more bytes."""


class Screen:
    """The pictures of one execution, in the order in which they were shown."""

    def __init__(self, limits: dict[str, Any]) -> None:
        self.max_images: int = limits["max_images"]
        self.max_pixels: int = limits["max_image_pixels"]
        self.max_aspect: float = limits["max_aspect_ratio"]
        self.max_bytes: int = limits["max_images_bytes"]
        self.begin()
        sys.meta_path.insert(0, Patches(self))
        for module in interactive_python(self):
            sys.modules[module.__name__] = module

    def begin(self) -> None:
        self.images: list[bytes] = []
        self.notes: list[str] = []
        self.n_shown = 0

    def end(self) -> None:
        """Figures that were left open are shown, and closed."""
        for figure in self.open_figures():
            try:
                self.show_figure(figure)
            except BaseException as error:  # noqa: BLE001 - whatever the model's figure raises when it is drawn
                self.notes.append(f"a figure could not be drawn: {type(error).__name__}: {error}")
        if self.n_shown > self.max_images:
            self.notes.append(f"only the first {self.max_images} of {self.n_shown} pictures are kept")

    # -- the ways of showing ------------------------------------------------

    def display(self, *things: object, **_: object) -> None:
        for thing in things:
            if not self.show_any(thing):
                print(thing if isinstance(thing, str) else repr(thing))

    def show_last(self, value: object) -> None:
        """The value of a last expression: a figure or a picture is meant to be seen, an array may be anything."""
        if is_a(value, "matplotlib.figure", "Figure") or is_a(value, "PIL.Image", "Image"):
            self.show_any(value)

    def show_any(self, thing: Any) -> bool:
        """False for what is no picture."""
        if is_a(thing, "matplotlib.figure", "Figure"):
            self.show_figure(thing)
        elif is_a(thing, "matplotlib.artist", "Artist") and getattr(thing, "figure", None) is not None:
            self.show_figure(thing.figure)
        elif is_a(thing, "PIL.Image", "Image"):
            self.show_picture(thing)
        elif is_a(thing, "numpy", "ndarray"):
            return self.show_array(thing)
        else:
            return False
        return True

    def show_open_figures(self, *_: object, **__: object) -> None:
        """In the place of `plt.show`."""
        for figure in self.open_figures():
            self.show_figure(figure)

    def open_figures(self) -> list[Any]:
        """Those that pyplot holds, by number."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        managers: dict[int, Any] = dict(helpers.Gcf.figs) if helpers else {}
        return [managers[number].canvas.figure for number in sorted(managers)]

    def show_figure(self, figure: Any, *_: object, **__: object) -> None:
        """In the place of `Figure.show`. At its own size in pixels, and closed, so that it is not shown again."""
        try:
            if self.has_room():
                width, height = (float(side * figure.dpi) for side in figure.get_size_inches())
                if self.has_usual_sides("figure", width, height):
                    shrink = min(1.0, math.sqrt(self.max_pixels / (width * height)))
                    content = io.BytesIO()
                    # A little less: the sides are rounded.
                    figure.savefig(content, format="png", dpi=figure.dpi * shrink * (0.999 if shrink < 1 else 1))
                    self.keep(content.getvalue(), "figure", width, height)
        finally:
            if "matplotlib.pyplot" in sys.modules:
                sys.modules["matplotlib.pyplot"].close(figure)

    def show_picture(self, picture: Any, *_: object, **__: object) -> None:
        """In the place of `Image.show`."""
        if not self.has_room():
            return
        width, height = picture.size
        if not self.has_usual_sides("picture", width, height):
            return
        picture = smaller(picture, self.max_pixels)
        content = io.BytesIO()
        plain(picture).save(content, "PNG", compress_level=COMPRESS_LEVEL)
        self.keep(content.getvalue(), "picture", width, height)

    def show_array(self, array: Any, *, is_bgr: bool = False) -> bool:
        """Grey, RGB or RGBA, as whole numbers up to 255 or fractions up to 1; False for any other array."""
        pixels = as_pixels(array)
        if pixels is None:
            return False
        if is_bgr and pixels.ndim == 3:
            pixels = pixels[:, :, [2, 1, 0, 3][: pixels.shape[2]]]
        from PIL import Image

        self.show_picture(Image.fromarray(pixels))
        return True

    def show_window(self, name: object, array: Any) -> None:
        """In the place of `cv2.imshow`, whose colours are in the order blue, green, red."""
        if not self.show_array(array, is_bgr=True):
            raise TypeError(f"imshow: no picture: {type(array).__name__} of shape {getattr(array, 'shape', None)}")

    # -- bounds -------------------------------------------------------------

    def has_room(self) -> bool:
        self.n_shown += 1
        return self.n_shown <= self.max_images

    def has_usual_sides(self, what: str, width: float, height: float) -> bool:
        size = f"{what} of {width:.0f}x{height:.0f} pixels"
        if min(width, height) < 1:
            self.notes.append(f"a {size} is not shown: it has no pixel")
            return False
        if max(width, height) > self.max_aspect * min(width, height):
            ratio = max(width, height) / min(width, height)
            most = f"at most {self.max_aspect:g} are allowed"
            self.notes.append(f"a {size} is not shown: one side is {ratio:.0f} times the other, {most}")
            return False
        return True

    def keep(self, png: bytes, what: str, width: float, height: float) -> None:
        shown_width, shown_height = PNG_SIZE.unpack_from(png, PNG_SIZE_AT)
        size = f"{what} of {width:.0f}x{height:.0f} pixels"
        if shown_width * shown_height > self.max_pixels:
            self.notes.append(f"a {size} is not shown: it came out as {shown_width}x{shown_height}")
        elif sum(map(len, self.images)) + len(png) > self.max_bytes:
            self.notes.append(f"a {size} is not shown: all pictures together would be over {self.max_bytes} bytes")
        else:
            self.images.append(png)
            if shown_width < width * 0.99:
                self.notes.append(f"a {size} is shown at {shown_width}x{shown_height}")


class Patches:
    """A finder that finds nothing itself: it has functions replaced right after their module is imported."""

    def __init__(self, screen: Screen) -> None:
        self.patches: dict[str, Patch] = {
            "matplotlib.figure": lambda module: setattr(module.Figure, "show", method(screen.show_figure)),
            "matplotlib.backend_bases": lambda module: setattr(
                module.FigureManagerBase, "show", method(lambda manager: screen.show_figure(manager.canvas.figure))
            ),
            "matplotlib.pyplot": lambda module: setattr(module, "show", function(screen.show_open_figures)),
            "PIL.Image": lambda module: setattr(module.Image, "show", method(screen.show_picture)),
            "PIL.ImageShow": lambda module: setattr(module, "show", screen.show_picture),
            "cv2": lambda module: patch_windows(module, screen),
        }
        self.looking = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        patch = self.patches.get(name)
        if patch is None or self.looking:
            return None
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_patch(module: types.ModuleType) -> None:
                execute(module)
                patch(module)

            spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]  # of this one loader
        return spec


def method(bound: Callable[..., None]) -> Callable[..., None]:
    """A bound method would not take the object that it is called on."""
    return lambda self, *words, **named: bound(self, *words, **named)


def function(bound: Callable[..., None]) -> Callable[..., None]:
    """matplotlib writes a signature onto `show`, which a bound method does not take."""
    return lambda *words, **named: bound(*words, **named)


def patch_windows(cv2: Any, screen: Screen) -> None:
    """OpenCV without windows raises at each of these."""
    cv2.imshow = screen.show_window
    cv2.waitKey = cv2.waitKeyEx = lambda delay=0: -1
    for name in ("namedWindow", "moveWindow", "resizeWindow", "destroyWindow", "destroyAllWindows"):
        setattr(cv2, name, lambda *_, **__: None)


def interactive_python(screen: Screen) -> list[types.ModuleType]:
    """What code written for a notebook imports: `from IPython.display import display, Image`."""
    package, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    package.__path__ = []

    def open_picture(data: Any = None, filename: str | None = None, **_: object) -> Any:
        from PIL import Image

        return Image.open(io.BytesIO(data) if isinstance(data, bytes) else filename or data)

    names: dict[str, object] = {
        "display": screen.display,
        "clear_output": lambda *_, **__: None,
        "Image": open_picture,
    }
    vars(module).update(names)
    # matplotlib asks these two of an IPython that it finds imported.
    vars(package).update(display=module, get_ipython=lambda: None, version_info=(9, 0, 0))
    return [package, module]


def is_a(thing: object, module: str, name: str) -> bool:
    """Without an import: what is not imported has no instances."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(thing, kind)


def smaller(picture: Any, max_pixels: int) -> Any:
    """At most so many pixels; the same object where it has no more."""
    width, height = picture.size
    if width * height <= max_pixels:
        return picture
    scale = math.sqrt(max_pixels / (width * height))
    size = max(1, int(width * scale)), max(1, int(height * scale))
    if picture.mode in ("1", "P"):  # numbers of colours, of which there is no mean
        return picture.resize(size, 0)
    return picture.resize(size, 2, reducing_gap=2.0)


def plain(picture: Any) -> Any:
    """Grey, RGB or RGBA of eight bits."""
    if picture.mode in ("L", "RGB", "RGBA"):
        return picture
    if picture.mode in ("F", "I", "I;16", "I;16L", "I;16B", "I;16N"):
        import numpy

        return from_numbers(numpy.asarray(picture, dtype=float))
    if picture.mode in ("LA", "PA", "La") or "transparency" in picture.info:
        return picture.convert("RGBA")
    return picture.convert("L" if picture.mode == "1" else "RGB")


def from_numbers(values: Any) -> Any:
    """From the least of them as black to the greatest as white, unless all lie between 0 and 255."""
    from PIL import Image

    least, most = float(values.min()), float(values.max())
    if least < 0 or most > 255:
        values = (values - least) * (255 / ((most - least) or 1))
    return Image.fromarray(values.astype("uint8"))


def as_pixels(array: Any) -> Any:
    """Bytes of shape (height, width) or (height, width, 3 or 4); None for an array that is no picture."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.size == 0 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        return None
    if array.dtype.kind == "b":
        return array.astype("uint8") * 255
    if array.dtype.kind in "iu":
        least, most = int(array.min()), int(array.max())
        if least < 0 or most > 0xFFFF:
            return None
        return (array >> 8 if most > 255 else array).astype("uint8")
    if array.dtype.kind == "f":
        lowest, highest = float(array.min()), float(array.max())
        if not (lowest >= 0 and highest <= 255):  # not a number, too
            return None
        return (array * 255 if highest <= 1 else array).round().astype("uint8")
    return None
