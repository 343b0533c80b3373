"""Shapes of the OpenAI dialect, which are plain JSON here."""

from typing import Any

Message = dict[str, Any]  # Any, here and below: JSON of somebody else's shape
Messages = list[Message]
Tool = dict[str, Any]
