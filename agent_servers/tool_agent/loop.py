"""The loop: the model answers, its calls run one after the other, what came of them goes back, until it ends.

One loop plays one body once. What was seen is kept whatever happens, so that a time-out hands it over.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from agent_servers.tool_agent.budgets import BUDGET_WORDS, Budgets, Ending, Used, budget_failure, tokens_failure
from agent_servers.tool_agent.dialects.contract import Action, BadCall, CallResult, Dialect, ToolCall, call_id
from agent_servers.tool_agent.toolbox import Toolbox, pixels_of, prompt_images
from gym_core.errors import EpisodeError, FailureKind
from gym_core.http.client import ServiceClient
from gym_core.servers.chat import (
    MODEL_ALIAS,
    Completion,
    SaidMessage,
    add_to_system,
    chat_messages,
    read_completion,
    sampling_fields,
)
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputPart,
    InputText,
    OutputItem,
    ResponsesBody,
    Usage,
)
from gym_core.types.session import UNKNOWN_TOOL, AgentReport, ModelAccess
from gym_core.types.tool import REFUSED
from gym_core.types.wire import JsonObject

FORCED = "Answer now, without calling a tool."


@dataclass(frozen=True)
class Policy:
    """The model, as one session may call it."""

    client: ServiceClient
    access: ModelAccess
    timeout_s: float
    """Of one call, longer than the loop's own limit."""


@dataclass
class Record:
    """What was seen so far."""

    output: list[OutputItem] = field(default_factory=list)
    usage: Usage = Usage()
    used: Used = field(default_factory=Used)
    ending: Ending | None = None
    failure: EpisodeError | None = None
    tool_calls: Counter[str] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)

    def end(self, ending: Ending, failure: EpisodeError | None = None) -> None:
        self.ending, self.failure = ending, failure

    def report(self) -> AgentReport:
        return AgentReport(
            tool_calls=dict(self.tool_calls),
            images_read=self.used.images,
            ending=self.ending,
            notes=list(self.notes),
        )


class ToolLoop:
    """`await play()` once, then read `record`."""

    def __init__(
        self, policy: Policy, toolbox: Toolbox, dialect: Dialect, budgets: Budgets, *, explains_calls: bool = True
    ) -> None:
        self._explains_calls = explains_calls
        self._policy = policy
        self._toolbox = toolbox
        self._dialect = dialect
        self._budgets = budgets
        self._messages: list[JsonObject] = []
        self._fields: JsonObject = {}
        self.record = Record()

    async def play(self, body: ResponsesBody) -> None:
        """To an ending, which is in `record`. Raises InvalidTask, and nothing else but for bugs and cancellation."""
        functions = self._toolbox.functions
        self._messages = chat_messages(await self._toolbox.shown(body))
        if self._budgets.prompt_images_count:
            self.record.used.prompt_images = len(prompt_images(body))
        if self._explains_calls and (told := self._dialect.system_text(functions)):
            add_to_system(self._messages, told)
        self._fields = self._request_fields(body) | self._dialect.request_fields(functions)
        try:
            await self._toolbox.put_images(body)
        except EpisodeError as error:
            self.record.end(Ending.TOOL_FAILED, error)
        while self.record.ending is None:
            await self._turn()

    def _request_fields(self, body: ResponsesBody) -> JsonObject:
        access = self._policy.access
        limits = (body.max_output_tokens, self._budgets.max_output_tokens, access.max_output_tokens)
        fields: JsonObject = {"model": MODEL_ALIAS, "max_tokens": min(limit for limit in limits if limit)}
        return fields | sampling_fields(body)

    async def _turn(self) -> None:
        completion = await self._ask()
        if completion is None:
            return
        action = self._dialect.read(completion.said, self._toolbox.functions, turn=self.record.used.turns)
        self.record.notes |= dict.fromkeys(f"form:{form}" for form in _forms(action))
        self._keep(completion, action)
        self.record.used.turns += 1
        cut = completion.cut(context_tokens=self._policy.access.context_tokens)
        if self._is_out_of_tokens(cut):
            self.record.end(Ending.TOKEN_BUDGET, tokens_failure())
        elif cut:
            self.record.end(_ending_of(cut), cut)
        elif not action.calls:
            empty = completion.empty()
            self.record.end(Ending.EMPTY_ANSWER if empty else Ending.FINISHED, empty)
        elif reached := self.record.used.refuses_calls(self._budgets, len(action.calls)):
            await self._at_budget(reached, action.calls)
        else:
            await self._run(action.calls)
            if self.record.ending is None and self.record.used.is_out_of_turns(self._budgets):
                self.record.end(Ending.MAX_TURNS, budget_failure(Ending.MAX_TURNS))

    def _is_out_of_tokens(self, cut: EpisodeError | None) -> bool:
        """An answer that is whole may end where the budget does."""
        left = self.record.used.tokens_left(self._budgets)
        return left is not None and (left < 0 or (left == 0 and cut is not None))

    async def _ask(self, **more: object) -> Completion | None:
        """The model's next answer; None when there is none, which ends the record."""
        if (left := self.record.used.tokens_left(self._budgets)) is not None:
            if left <= 0:
                self.record.end(Ending.TOKEN_BUDGET, tokens_failure())
                return None
            more = {"max_tokens": min(self._fields["max_tokens"], left)} | more
        request = msgspec.json.encode(self._fields | {"messages": self._messages} | more)
        try:
            reply = await self._policy.client.send(
                "POST", "/chat/completions", body=request, timeout_s=self._policy.timeout_s
            )
            completion = read_completion(reply.status, reply.body)
        except EpisodeError as error:
            self.record.end(_ending_of(error), error)
            return None
        self.record.usage = _sum(self.record.usage, completion.usage)
        self.record.used.count_tokens(completion.usage)
        return completion

    def _keep(self, completion: Completion, action: Action) -> None:
        """The answer into the trajectory and the conversation."""
        self._messages.append(_echo(completion.said, turn=self.record.used.turns))
        self.record.output += [*completion.reasoning_items(), *completion.message_items(action.text)]
        self.record.output += [_function_call(call) for call in action.calls]

    # -- calls --------------------------------------------------------------

    async def _run(self, calls: Sequence[ToolCall | BadCall]) -> None:
        """One after the other, in the model's order."""
        results: list[CallResult] = []
        for index, call in enumerate(calls):
            try:
                reply = await self._toolbox.call(call)
            except EpisodeError as error:
                self.record.end(Ending.TOOL_FAILED, error)
                return
            self._count(call, is_error=reply.is_error)
            pixels = pixels_of(reply.content)
            if self.record.used.refuses_images(self._budgets, pixels):
                self._answer(results)
                await self._at_budget(Ending.IMAGE_BUDGET, calls[index:], answered=results)
                return
            self.record.used.images += len(pixels)
            self.record.used.image_pixels += sum(pixels)
            results.append(CallResult(call, tuple(reply.content)))
            if reply.ends:
                self._answer(results)
                self.record.end(Ending.ENDED_BY_TOOL)
                return
        self._answer(results)
        self._messages += self._dialect.observe(results)

    def _count(self, call: ToolCall | BadCall, *, is_error: bool) -> None:
        self.record.used.tool_calls += 1
        # A name that is no tool's is the model's to make up, and so is how many there are.
        known = isinstance(call, ToolCall) and call.name in {function.name for function in self._toolbox.functions}
        self.record.tool_calls[call.name if known and isinstance(call, ToolCall) else UNKNOWN_TOOL] += 1
        if is_error:
            self.record.notes["call_refused"] = None

    def _answer(self, results: Sequence[CallResult]) -> None:
        self.record.output += [_function_output(result) for result in results]

    async def _at_budget(
        self, reached: Ending, unrun: Sequence[ToolCall | BadCall], *, answered: Sequence[CallResult] = ()
    ) -> None:
        """End, or have one answer more: calls that were not run are answered too, as templates want it."""
        if self._budgets.at_budget == "end":
            self.record.end(reached, budget_failure(reached))
            return
        refusal = (InputText(text=f"{REFUSED}{BUDGET_WORDS[reached]}. {FORCED}"),)
        refused = [CallResult(call, refusal) for call in unrun]
        self._answer(refused)
        self._messages += self._dialect.observe([*answered, *refused])
        self.record.notes["forced_answer"] = None
        # The tools stay declared, so that the prompt goes on from the one before; the model may only not choose them.
        completion = await self._ask(**({"tool_choice": "none"} if "tools" in self._fields else {}))
        if completion is None:
            return
        self._keep(completion, Action(completion.text))
        self.record.used.turns += 1
        cut = completion.cut(context_tokens=self._policy.access.context_tokens) or completion.empty()
        self.record.end(_ending_of(cut) if cut else reached, cut)


_ENDING_OF = {
    FailureKind.OUTPUT_CAP: Ending.OUTPUT_CAP,
    FailureKind.CONTEXT_LIMIT: Ending.CONTEXT_LIMIT,
    FailureKind.NO_FINAL_ANSWER: Ending.EMPTY_ANSWER,
}


def _ending_of(failure: EpisodeError) -> Ending:
    return _ENDING_OF.get(failure.kind, Ending.ENDPOINT_FAILED)


def _forms(action: Action) -> list[str]:
    return [*action.forms, *(call.form for call in action.calls if isinstance(call, BadCall))]


def _sum(a: Usage, b: Usage) -> Usage:
    return Usage(
        input_tokens=a.input_tokens + b.input_tokens,
        output_tokens=a.output_tokens + b.output_tokens,
        total_tokens=a.total_tokens + b.total_tokens,
    )


def _function_call(call: ToolCall | BadCall) -> FunctionCall:
    if isinstance(call, BadCall):
        return FunctionCall(call_id=call.call_id, name=UNKNOWN_TOOL, arguments=call.text, status="incomplete")
    return FunctionCall(call_id=call.call_id, name=call.name, arguments=call.arguments)


def _function_output(result: CallResult) -> FunctionCallOutput:
    has_image = any(isinstance(part, InputImage) for part in result.content)
    return FunctionCallOutput(
        call_id=result.call.call_id, output=list(result.content) if has_image else _text(result.content)
    )


def _text(content: Sequence[InputPart]) -> str:
    return "\n".join(part.text for part in content if isinstance(part, InputText))


def _echo(said: SaidMessage, *, turn: int) -> JsonObject:
    """The answer as it goes back, in the endpoint's own words so that its tokens are found again.

    Arguments that are no JSON object go back as `{}`: engines parse them, and refuse the whole request.
    """
    message: JsonObject = {"role": "assistant", "content": said.content}
    if thought := said.reasoning_content or said.reasoning:
        message["reasoning_content" if said.reasoning_content else "reasoning"] = thought
    if said.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id or call_id(turn, index),
                "type": "function",
                "function": {"name": call.function.name or "", "arguments": _object(call.function.arguments_text)},
            }
            for index, call in enumerate(said.tool_calls)
        ]
    return message


def _object(arguments: str) -> str:
    try:
        return arguments if isinstance(json.loads(arguments), dict) else "{}"
    except (ValueError, RecursionError):
        return "{}"
