"""Trajectories as `tool_agent` leaves them, for the tests: what the model said, ran and saw."""

import json

from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ResponsesReply,
)
from resources_servers.chart_focus.task import ChartTask
from resources_servers.chart_focus.trajectory import RAN

BARS = ChartTask.model_validate(
    {
        "question": "What is the value of B?",
        "expected_answer": "20",
        "figure_type": "v_bar",
        "boxes": {"x_values": {"A": (0, 0, 10, 50), "B": (10, 0, 20, 50), "C": (20, 0, 30, 50)}},
        "roi": [(10, 0, 20, 50)],
    }
)
TABLE = ChartTask.model_validate(
    {
        "question": "How many goals has Ann?",
        "expected_answer": "3",
        "figure_type": "table",
        "boxes": {
            "columns": {"Name": (0, 0, 50, 40), "Goals": (50, 0, 100, 40)},
            "rows": {"Name": (0, 0, 100, 20), "Ann": (0, 20, 100, 40)},
        },
        "roi": [(50, 20, 100, 40)],
    }
)
FOCUS = 'display(focus_on_x_values_with_draw(image_1, ["B"], x_values_bbox))'
"""Listed for BARS."""
UNLISTED = "display(image_1.rotate(90))"
SHOWN = [InputText(text=RAN), InputImage(image_url="sha256:" + "0" * 64)]


def says(text: str) -> OutputMessage:
    return OutputMessage(id="m", content=[OutputText(text=text)])


def runs(code: str, output: str | list[InputText | InputImage] | None = None) -> list[OutputItem]:
    """A call of the code tool and what came of it; None is an edited image."""
    call = FunctionCall(call_id="c", name="python", arguments=json.dumps({"code": code}))
    told = SHOWN if output is None else output
    return [call, FunctionCallOutput(call_id="c", output=told if isinstance(told, str) else list(told))]


def misread(text: str = "```python\nprint(") -> list[OutputItem]:
    """A block that was none, as the agent notes and answers it."""
    call = FunctionCall(call_id="c", name="unknown_tool", arguments=text, status="incomplete")
    return [call, FunctionCallOutput(call_id="c", output="Error: the code block is not closed.")]


def reply(*items: OutputItem | list[OutputItem]) -> ResponsesReply:
    flat = [item for group in items for item in (group if isinstance(group, list) else [group])]
    return ResponsesReply(id="r", created_at=0, status="completed", output=flat)
