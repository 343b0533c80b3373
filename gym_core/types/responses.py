"""The slice of the OpenAI Responses dialect that we send, accept and store, image parts included.

An image travels as `image_url`: a `data:` URL, or on disk and towards graders `sha256:<hex>`, a reference into an
assets folder (see `gym_core.capture.images`).
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from gym_core.types.wire import BulkyWire, JsonObject, Wire

MAX_TEMPERATURE = 100.0
"""Far past the point where a model says anything at random."""
MAX_OUTPUT_TOKENS = 2**31 - 1


class InputText(Wire):
    type: Literal["input_text"] = "input_text"
    text: str


class InputImage(Wire):
    type: Literal["input_image"] = "input_image"
    image_url: str
    detail: Literal["auto", "low", "high"] = "auto"


InputPart = Annotated[InputText | InputImage, Field(discriminator="type")]


class InputMessage(Wire):
    type: Literal["message"] = "message"
    role: Literal["user", "system", "developer"]
    content: str | list[InputPart]

    @property
    def parts(self) -> list[InputPart]:
        return [InputText(text=self.content)] if isinstance(self.content, str) else self.content


class OutputText(Wire):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[JsonObject] = []


class OutputMessage(Wire):
    type: Literal["message"] = "message"
    id: str
    role: Literal["assistant"] = "assistant"
    status: Literal["completed", "incomplete", "in_progress"] = "completed"
    content: list[OutputText]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)


class ReasoningText(Wire):
    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class ReasoningItem(Wire):
    type: Literal["reasoning"] = "reasoning"
    id: str
    summary: list[JsonObject] = []
    content: list[ReasoningText] = []


class FunctionCall(Wire):
    type: Literal["function_call"] = "function_call"
    id: str | None = None
    call_id: str
    name: str
    arguments: str
    """JSON text as the model produced it, or as the harness re-serialised it."""
    status: Literal["completed", "incomplete", "in_progress"] = "completed"


class FunctionCallOutput(Wire):
    type: Literal["function_call_output"] = "function_call_output"
    id: str | None = None
    call_id: str
    output: str | list[InputPart]
    """List-shaped when a tool returned pictures: that is how trainers find them."""
    status: Literal["completed", "incomplete", "in_progress"] = "completed"


OutputItem = Annotated[
    OutputMessage | InputMessage | ReasoningItem | FunctionCall | FunctionCallOutput,
    Field(union_mode="left_to_right"),
]


class ResponsesBody(BulkyWire):
    """A create-Response body (`responses_create_params` of a row). Unknown fields are refused."""

    input: str | list[OutputItem]
    instructions: str | None = None
    model: str | None = None
    tools: list[JsonObject] = []
    tool_choice: str | JsonObject = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: int | None = Field(default=None, gt=0, le=MAX_OUTPUT_TOKENS)
    max_tool_calls: int | None = None
    temperature: float | None = Field(default=None, ge=0, le=MAX_TEMPERATURE)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_logprobs: int | None = None
    reasoning: JsonObject | None = None
    text: JsonObject | None = None
    metadata: dict[str, str] | None = None
    include: list[str] | None = None
    truncation: str | None = None
    store: bool | None = None
    stream: Literal[False] | None = None
    user: str | None = None

    @property
    def items(self) -> list[OutputItem]:
        return [InputMessage(role="user", content=self.input)] if isinstance(self.input, str) else self.input

    def user_parts(self) -> list[InputPart]:
        """Content parts of the last user message, in order. Raises ValueError when there is none."""
        for item in reversed(self.items):
            if isinstance(item, InputMessage) and item.role == "user":
                return item.parts
        raise ValueError("responses_create_params.input holds no user message")


class Usage(Wire):
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0


class IncompleteDetails(Wire):
    reason: str


class ResponseError(Wire):
    code: str
    """A `FailureKind` word."""
    message: str


class ResponsesReply(BulkyWire):
    """What an agent made of a body: the whole trajectory as items, and how it ended.

    `status` is "completed" for an answer, "incomplete" when a limit stopped the model, "failed" when the episode broke;
    the last two carry `error` with the failure kind. A broken episode still hands over what was seen until then.
    """

    id: str
    object: Literal["response"] = "response"
    created_at: float
    status: Literal["completed", "incomplete", "failed"]
    model: str = ""
    output: list[OutputItem]
    usage: Usage = Usage()
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    metadata: dict[str, str] | None = None

    @property
    def final_text(self) -> str:
        """Text of the last assistant message when it ends the trajectory, else ""."""
        for item in reversed(self.output):
            if isinstance(item, OutputMessage):
                return item.text
            if isinstance(item, (FunctionCall, FunctionCallOutput)):
                return ""
        return ""

    def assistant_text(self) -> str:
        """All assistant text parts, joined by blank lines: what a judge may see the end of."""
        return "\n\n".join(item.text for item in self.output if isinstance(item, OutputMessage) and item.text)

    def images(self) -> Iterator[InputImage]:
        for item in self.output:
            parts = item.output if isinstance(item, FunctionCallOutput) else getattr(item, "content", [])
            if isinstance(parts, list):
                yield from (part for part in parts if isinstance(part, InputImage))
