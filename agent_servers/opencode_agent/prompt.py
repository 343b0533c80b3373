"""The text that OpenCode is given: the body's instructions, then the user's text, byte for byte. Pure."""

from gym_core.errors import InvalidTask, boundary
from gym_core.types.responses import InputMessage, InputText, ResponsesBody


def prompt_of(body: ResponsesBody) -> str:
    """System and developer text comes first, as OpenCode's own system prompt cannot be added to without changing it.

    Raises InvalidTask for a body without user text, or with an earlier conversation, which OpenCode cannot be told.
    """
    with boundary(InvalidTask, "prompt of the task"):
        asked = _text(InputMessage(role="user", content=body.user_parts()))
    messages = [item for item in body.items if isinstance(item, InputMessage)]
    earlier = len(body.items) - len(messages) + sum(message.role == "user" for message in messages) - 1
    if earlier:
        raise InvalidTask(f"opencode_agent starts a conversation and cannot go on with one: {earlier} earlier items")
    if not asked.strip():
        raise InvalidTask("the task's user message holds no text")
    told = [_text(message) for message in messages if message.role != "user"]
    return "\n\n".join(text for text in (body.instructions or "", *told, asked) if text)


def _text(message: InputMessage) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, InputText))
