"""All image tools by name, their schemas, and the one door through which they are called.

    made = run("crop", [picture], {"box": [0.1, 0.1, 0.5, 0.6]})
    made.images[0].save("crop.png"); print(made.text)

A tool is a plain function of a family's module: parameters annotated `View` are images, the others carry an argument
of `arguments.py`; its docstring is what the model reads.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Annotated, Protocol, cast, get_args, get_origin, get_type_hints

from PIL import Image

from .arguments import Argument, Schema, check_names, shown
from .contract import ImageToolError, Made, View
from .places import Coordinates

FAMILIES = (
    "geometry",
    "drawing",
    "marking",
    "enhancement",
    "features",
    "colors",
    "measurement",
    "combining",
)
"""Modules of this package, each with its tools in `TOOLS`; those among them whose picture shows every place of their
(first) image where it was, as a fraction of width and height, are in `KEEPS_PLACES`."""

MAX_IMAGES_AT_ONCE = 6


class Pictures(Protocol):
    """Images by index from 0, as a list is; one is decoded when it is asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Image.Image: ...


@dataclass(frozen=True)
class ImageTool:
    name: str
    family: str
    description: str
    takes: str
    """"one" image, "two", or "several"."""
    arguments: Mapping[str, Argument]
    defaults: Mapping[str, object]
    function: Callable[..., Made]
    keeps_places: bool
    """Its picture shows every place of its (first) image where it was, as a fraction of width and height."""

    def schema(self, coordinates: Coordinates = Coordinates.FRACTION) -> Schema:
        """JSON schema of the whole call's arguments, those that choose images first."""
        properties: dict[str, Schema] = dict(_IMAGE_SCHEMAS[self.takes])
        for name, argument in self.arguments.items():
            properties[name] = argument.schema(coordinates) | _default_of(self.defaults.get(name))
        chosen = {"one": [], "two": ["image", "other_image"], "several": ["images"]}[self.takes]
        required = chosen + [name for name in self.arguments if name not in self.defaults]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _default_of(value: object) -> Schema:
    if value is None:
        return {}
    return {"default": "#{:02x}{:02x}{:02x}".format(*value) if isinstance(value, tuple) else value}


_INDEX: Schema = {"type": "integer", "minimum": 0}
_FIRST = "Which image: 0 is the first one of the conversation, later ones count on, those from tools too"
_IMAGE_SCHEMAS: Mapping[str, Mapping[str, Schema]] = {
    "one": {"image": _INDEX | {"default": 0, "description": _FIRST}},
    "two": {"image": _INDEX | {"description": _FIRST}, "other_image": _INDEX | {"description": "The other image"}},
    "several": {
        "images": {
            "type": "array",
            "items": _INDEX,
            "minItems": 2,
            "maxItems": MAX_IMAGES_AT_ONCE,
            "description": f"{_FIRST}; in order",
        }
    },
}


@cache
def all_tools() -> Mapping[str, ImageTool]:
    """Every tool by name, family by family. Raises ImportError where OpenCV is missing."""
    tools: dict[str, ImageTool] = {}
    for family in FAMILIES:
        try:
            module = import_module(f".{family}", __package__)
        except ModuleNotFoundError as error:
            raise ImportError(f"image tools need {error.name}: pip install 'visual-agent-gym[image-tools]'") from error
        for function in module.TOOLS:
            tool = _tool_of(function, family, keeps_places=function in module.KEEPS_PLACES)
            tools[tool.name] = tool
    return tools


def chosen_tools(names: Sequence[str]) -> list[ImageTool]:
    """The tools of these names, a family's name standing for all of its tools. Raises ValueError for an unknown one."""
    known = all_tools()
    chosen: dict[str, ImageTool] = {}
    for name in names:
        found = [tool for tool in known.values() if name in (tool.name, tool.family)]
        if not found:
            raise ValueError(f"no image tool or family {name!r}; families: {', '.join(FAMILIES)}")
        chosen |= {tool.name: tool for tool in found}
    return list(chosen.values())


def run(
    name: str,
    images: Pictures,
    arguments: Mapping[str, object],
    *,
    coordinates: Coordinates | str = Coordinates.FRACTION,
) -> Made:
    """Call a tool on some of the images, as `image`, `other_image` or `images` of the arguments say (the first one).

    Raises ImageToolError, with words for a model, for everything that is wrong with the call. Never changes an image.
    """
    tool = all_tools().get(name)
    if tool is None:
        raise ImageToolError(f"there is no image tool {shown(name)}; there are: {', '.join(all_tools())}")
    check_names(arguments, {**_IMAGE_SCHEMAS[tool.takes], **tool.arguments}, name)
    views = _views(tool, images, arguments, Coordinates(coordinates))
    values = {key: _read(tool, key, arguments[key], views[0]) for key in tool.arguments if key in arguments}
    missing = [key for key in tool.arguments if key not in arguments and key not in tool.defaults]
    if missing:
        raise ImageToolError(f"{name} needs {missing[0]}: {tool.arguments[missing[0]].about}")
    return tool.function(tuple(views), **values) if tool.takes == "several" else tool.function(*views, **values)


def _views(tool: ImageTool, images: Pictures, arguments: Mapping[str, object], coordinates: Coordinates) -> list[View]:
    asked: list[object]
    if tool.takes == "several":
        several = arguments.get("images")
        if not isinstance(several, (list, tuple)) or not 2 <= len(several) <= MAX_IMAGES_AT_ONCE:
            raise ImageToolError(f"{tool.name} needs images: a list of 2 to {MAX_IMAGES_AT_ONCE} image numbers")
        asked = list(several)
    elif tool.takes == "two":
        if "image" not in arguments or "other_image" not in arguments:
            raise ImageToolError(f"{tool.name} needs two images: image and other_image")
        asked = [arguments["image"], arguments["other_image"]]
    else:
        asked = [arguments.get("image", 0)]
    return [_view(images, index, coordinates) for index in asked]


def _view(images: Pictures, asked: object, coordinates: Coordinates) -> View:
    count = len(images)
    if not isinstance(asked, int) or isinstance(asked, bool) or not 0 <= asked < count:
        raise ImageToolError(f"there is no image {shown(asked)}: there are {count}, counted from 0")
    return View.of(images[asked], f"image {asked}", coordinates)


def _read(tool: ImageTool, name: str, value: object, view: View) -> object:
    try:
        return tool.arguments[name].read(value, view)
    except ImageToolError as error:
        raise ImageToolError(f"{tool.name}, {name}: {error}") from error


def _tool_of(function: Callable[..., Made], family: str, *, keeps_places: bool) -> ImageTool:
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return")
    parameters = inspect.signature(function).parameters
    views = [name for name, hint in hints.items() if hint is View]
    several = [name for name, hint in hints.items() if hint == tuple[View, ...]]
    arguments: dict[str, Argument] = {}
    for name, hint in hints.items():
        if name not in views and name not in several:
            if get_origin(hint) is not Annotated:
                raise TypeError(f"{function.__name__}: {name} says no bounds")
            # Annotated keeps its second part as it was written, and that is an Argument by this package's convention.
            arguments[name] = cast(Argument, get_args(hint)[1])
    return ImageTool(
        name=function.__name__,
        family=family,
        description=inspect.cleandoc(function.__doc__ or ""),
        takes="several" if several else "two" if len(views) == 2 else "one",
        arguments=arguments,
        defaults={n: p.default for n, p in parameters.items() if p.default is not inspect.Parameter.empty},
        function=function,
        keeps_places=keeps_places,
    )
