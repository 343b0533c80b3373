"""A conversation of the scripted policy with image tools, without services: calls run on pictures in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from PIL import Image

from gym_core.image_tools import ImageToolError, run
from gym_core.servers.image_looks import told_number
from model_servers.scripted_model.chat import ChatMessage, Turn
from model_servers.scripted_model.policy import next_turn

TOOLS = frozenset(
    {"crop", "flip", "threshold", "contours", "components", "find_template", "color_at", "compare", "zoom", "rotate"}
)


def question_with_picture(text: str) -> ChatMessage:
    """The picture is none that can be looked at: these policies go by words."""
    parts = [{"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": text}]
    return ChatMessage.model_validate({"role": "user", "content": parts})


@dataclass
class ToolPlay:
    pictures: list[Image.Image]
    question: str
    tools: frozenset[str] = TOOLS
    turns: list[Turn] = field(default_factory=list)

    def play(self) -> str:
        """The final text. Fails where the policy does not end."""
        messages = [question_with_picture(self.question)]
        for _ in range(40):
            turn = next_turn(messages, self.tools)
            self.turns.append(turn)
            if not turn.calls:
                return turn.text
            messages += [ChatMessage(role="tool", content=self._told(call.name, call.arguments)) for call in turn.calls]
        raise AssertionError("the policy goes on and on")

    @property
    def names(self) -> Sequence[str]:
        return [call.name for turn in self.turns for call in turn.calls]

    def _told(self, name: str, arguments: dict[str, object]) -> str:
        try:
            made = run(name, self.pictures, arguments)
        except ImageToolError as mistake:
            return f"Error: {mistake}"
        numbers = range(len(self.pictures), len(self.pictures) + len(made.images))
        self.pictures += made.images
        return "\n".join([made.text, *map(told_number, numbers)])
