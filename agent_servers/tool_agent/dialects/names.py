"""Dialects by the word that a configuration names them with."""

from typing import Literal

from agent_servers.tool_agent.dialects.code_blocks import CodeBlocks
from agent_servers.tool_agent.dialects.contract import Dialect
from agent_servers.tool_agent.dialects.openai import OpenAiCalls, ToolImages
from agent_servers.tool_agent.dialects.tagged_json import TaggedJson
from agent_servers.tool_agent.dialects.tagged_xml import TaggedXml

DialectName = Literal["openai", "tagged_json", "tagged_xml", "code"]


def dialect_of(name: DialectName, *, tool_images: ToolImages) -> Dialect:
    """`tool_images` is for "openai": the others have their pictures in the user message that answers a call."""
    match name:
        case "openai":
            return OpenAiCalls(tool_images)
        case "tagged_json":
            return TaggedJson()
        case "tagged_xml":
            return TaggedXml()
        case "code":
            return CodeBlocks()
