"""The tools that a class describes: read, and given to a model with the schema that the class wrote."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gym_core.http.app import first_mistakes
from gym_core.servers.tools import Tool, ToolArguments
from gym_core.types.tool import ToolFunction, ToolName
from gym_core.types.wire import JsonObject

MAX_TOOLS = 128


class AnyArguments(ToolArguments):
    """What the model wrote, whatever it was: the class gets it as it is."""

    model_config = ConfigDict(frozen=True, extra="allow")


@dataclass(frozen=True)
class EnvironmentTool(Tool[AnyArguments]):
    function: ToolFunction

    def as_function(self) -> ToolFunction:
        return self.function


class _Function(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    name: ToolName
    description: str = ""
    parameters: JsonObject = {"type": "object", "properties": {}}


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Literal["function"]
    function: _Function


_declared = TypeAdapter(Annotated[list[_Declared], Field(max_length=MAX_TOOLS)])


def read_functions(found: object) -> list[ToolFunction]:
    """What `list_tools` gave. Raises ValueError for what is no list of OpenAI's function tools, or names one twice."""
    try:
        declared = _declared.validate_python(found)
    except ValidationError as error:
        raise ValueError(f"list_tools: {first_mistakes(error)}") from error
    functions = [ToolFunction.model_validate(item.function.model_dump()) for item in declared]
    names = [function.name for function in functions]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"list_tools: {', '.join(map(repr, twice))} is there twice")
    return functions
