"""What the model is told: the question, the names of what it may focus on, and how to write an action and an answer.

The names stand in the prompt; where they are in the figure only the runtime knows.
"""

import json
from collections.abc import Mapping, Sequence

from benchmarks.chart_focus.parts import AXES_OF, Axis, FigureType

_WAYS = {
    "mask": "paints the others white",
    "draw": "draws a red box around each",
    "highlight": "lays a light red over each",
}
_WORDS: dict[Axis, str] = {"columns": "columns", "rows": "rows", "x_values": "x values", "y_values": "y values"}
_BOXES = "{axis}_bbox"
_EXAMPLE = """\
THOUGHT 0: what the question is about, and what to focus on for it.
ACTION 0:
```python
focused = focus_on_{axis}_with_draw(image_1, ["one name", "another"], {axis}_bbox)
display(focused)
```"""


def prompt_text(question: str, figure_type: FigureType, names: Mapping[Axis, Sequence[str]]) -> str:
    """`names` are those of each axis of the figure, in their order; an axis without names is not spoken of."""
    axes = [axis for axis in AXES_OF[figure_type] if names.get(axis)]
    if not axes:
        raise ValueError(f"a figure of type {figure_type!r} without {' or '.join(AXES_OF[figure_type])}")
    listed = [_named(axis, names[axis]) for axis in axes]
    return "\n\n".join([f"Question: {question}", "\n".join(listed), _functions(axes), _form(axes[-1])])


def _named(axis: Axis, names: Sequence[str]) -> str:
    boxes = _BOXES.format(axis=axis)
    return (
        f"The {_WORDS[axis]} of the figure: {json.dumps(list(names), ensure_ascii=False)}. Their boxes are in {boxes}."
    )


def _functions(axes: Sequence[Axis]) -> str:
    lines = [
        f"- focus_on_{axis}_with_{way}(image, names, {_BOXES.format(axis=axis)}): of the named {_WORDS[axis]}, {does}"
        for axis in axes
        for way, does in _WAYS.items()
    ]
    return "\n".join(
        [
            "The figure is the variable image_1, a PIL image. Much of it may not matter to the question: you may focus "
            "on what does, once, by an action. An action is a block of Python that edits the image with functions from "
            "this list and ends with display(...) of the result, which is then shown to you:",
            *lines,
            "Each gives a new image, so they can follow one another. Use no other function.",
        ]
    )


def _form(axis: Axis) -> str:
    example = _EXAMPLE.format(axis=axis)
    return (
        f"To focus, reply like this, and stop after the block:\n{example}\n"
        "The edited image comes back as OBSERVATION. Then write THOUGHT 1 and the answer; there is no second action.\n"
        "If the image is clear enough as it is, write ACTION 0: No action needed. and the answer at once.\n"
        "The answer is always in this form, with || between several answers, and ends your reply:\n"
        "ANSWER: a sentence. FINAL ANSWER: the bare value or name, or one || another. TERMINATE"
    )
