"""A session's model calls as the page shows them: in numbers, and one of them whole, as it was sent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pydantic import ValidationError

from gym_core.capture.images import parse_reference
from gym_core.capture.recorder import CapturedCall, capture_path, read_captured
from gym_core.capture.sequences import SessionSequences, join
from gym_core.types.model_call import CallAnswer, ModelCall
from gym_core.types.sample import BranchLabel
from gym_core.types.wire import JsonObject
from gym_core.viewer.pictures import Gallery
from gym_core.viewer.plain_file import must_be_plain
from gym_core.viewer.shell import tool_part
from gym_core.viewer.texts import Texts
from gym_core.viewer.types import CallFacts, CallMessage, CallView, ToolPart


@dataclass(frozen=True)
class SessionCalls:
    """In order of arrival."""

    captured: Sequence[CapturedCall]
    models: Sequence[ModelCall]
    """Each one's facts, without the conversation and the tokens."""
    facts: Sequence[CallFacts]
    sequences: SessionSequences | None
    problem: str = ""

    @property
    def main(self) -> list[int]:
        """Places of the calls of the main branch; of all answered ones where no main branch could be told."""
        in_main = [n for n, call in enumerate(self.facts) if call.branch is BranchLabel.MAIN]
        return in_main or [n for n, call in enumerate(self.facts) if call.outcome == "answered"]


def read_session_calls(captures: Path, session_id: str | None, final_answer: str | None) -> SessionCalls:
    """Never raises for a file that is missing or damaged: `problem` says so. About 0.1 s for 200 calls."""
    if session_id is None:
        return SessionCalls((), (), (), None, "no model call was captured")
    try:
        path = capture_path(captures, session_id)
        must_be_plain(path)
        captured = list(read_captured(path))
        models = [_facts_of(call) for call in captured]
    except FileNotFoundError:
        return SessionCalls((), (), (), None, "the file of its model calls is not in the captures folder")
    except (OSError, ValueError, KeyError, RecursionError) as error:
        return SessionCalls((), (), (), None, f"its model calls cannot be read: {str(error)[:300]}")
    sequences, problem = None, ""
    try:
        sequences = join(captured, final_answer=final_answer)
    except (ValueError, KeyError, RecursionError) as error:
        problem = f"its branches cannot be told: {str(error)[:300]}"
    order = sorted(range(len(models)), key=lambda n: models[n].index)
    captured, models = [captured[n] for n in order], [models[n] for n in order]
    return SessionCalls(captured, models, _all_facts(models, sequences), sequences, problem)


def _facts_of(call: CapturedCall) -> ModelCall:
    try:
        return ModelCall.model_validate({"messages": [], "tools": [], **call.facts})
    except ValidationError as error:
        raise ValueError(f"a call of another shape: {error.error_count()} mistakes") from error


def _all_facts(models: Sequence[ModelCall], sequences: SessionSequences | None) -> list[CallFacts]:
    branches: dict[str, BranchLabel] = {}
    for branch in reversed(sequences.branches if sequences else ()):  # the main branch, the first, has the last word
        branches |= dict.fromkeys(branch.call_ids, branch.label)
    drifts = {drift.call_id: drift for drift in (sequences.drifts if sequences else ())}
    first = min((model.sent_at for model in models), default=0.0)
    return [
        CallFacts(
            index=model.index,
            call_id=model.call_id,
            outcome=model.outcome.value,
            branch=branches.get(model.call_id),
            sent_at=model.sent_at,
            started_s=model.sent_at - first,
            seconds=model.timings.total_s,
            queued_s=model.timings.queued_s,
            first_byte_s=model.timings.first_byte_s,
            input_tokens=model.answer.input_tokens if model.answer else 0,
            output_tokens=model.answer.output_tokens if model.answer else 0,
            images=len(model.images),
            images_added=len(model.images_added),
            finish_reason=model.answer.finish_reason if model.answer else "",
            failure=": ".join(filter(None, (model.failure_kind, model.failure_message)))[:500],
            gaps=model.gaps or [],
            notes=[note[:100] for note in model.notes[:16]],
            policy_version=model.policy_version,
            drift=drifts.get(model.call_id),
            tools=[tool.name[:100] for tool in model.answer.tool_calls[:16]] if model.answer else [],
        )
        for model in models
    ]


def call_view(calls: SessionCalls, place: int, gallery: Gallery, texts: Texts) -> CallView:
    captured, model = calls.captured[place], calls.models[place]
    return CallView(
        facts=calls.facts[place],
        messages=[_message(_decoded(raw), gallery, texts) for raw in captured.messages],
        answer=_answer(model.answer, texts) if model.answer else None,
        tools=texts.clip(_pretty(_decoded_any(captured.tools))),
        sampling=texts.clip(_pretty(model.sampling)),
    )


def _message(message: Mapping[str, object], gallery: Gallery, texts: Texts) -> CallMessage:
    """Of the chat dialect, read loosely: a harness may send anything."""
    said, images = [], []
    for part in _parts(message.get("content")):
        url = part.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url
        if isinstance(url, str):
            images.append(gallery.picture(_digest(url)))
        elif isinstance(part.get("text"), str):
            said.append(str(part["text"]))
        else:
            said.append(_pretty(part))
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            said.insert(0, f"[{name}]\n{message[name]}")
    tools = message.get("tool_calls")
    return CallMessage(
        role=str(message.get("role", ""))[:50],
        text=texts.clip("\n\n".join(said)),
        images=images,
        tool_calls=[_tool_call(tool, texts) for tool in tools] if isinstance(tools, list) else [],
    )


def _parts(content: object) -> Iterator[Mapping[str, object]]:
    if isinstance(content, str):
        yield {"text": content}
    elif isinstance(content, list):
        yield from (part if isinstance(part, dict) else {"text": str(part)} for part in content)
    elif content is not None:
        yield {"text": _pretty(content)}


def _digest(url: str) -> str:
    try:
        return parse_reference(url)
    except ValueError:
        return url[:80]


def _tool_call(tool: object, texts: Texts) -> ToolPart:
    function = tool.get("function") if isinstance(tool, dict) else None
    function = function if isinstance(function, dict) else {}
    call_id = str(tool.get("id", "")) if isinstance(tool, dict) else ""
    return tool_part(str(function.get("name", "")), call_id, str(function.get("arguments", "")), texts)


def _answer(answer: CallAnswer, texts: Texts) -> CallMessage:
    said = [f"[reasoning]\n{answer.reasoning}"] if answer.reasoning else []
    return CallMessage(
        role="assistant",
        text=texts.clip("\n\n".join([*said, answer.content])),
        tool_calls=[tool_part(tool.name, tool.id, tool.arguments, texts) for tool in answer.tool_calls],
    )


def _decoded(raw: bytes) -> JsonObject:
    found = _decoded_any(raw)
    return found if isinstance(found, dict) else {"content": _pretty(found)}


def _decoded_any(raw: bytes) -> object:
    try:
        found: object = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return raw.decode("utf-8", "replace")
    return found


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
