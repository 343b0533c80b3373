"""A run on disk as an evaluation leaves it: rollouts, captures with token ids, and pictures."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
from PIL import Image

from gym_core.capture.images import AssetStore, make_reference
from gym_core.capture.recorder import CallRecord, CallRecorder, CallTokens, capture_path
from gym_core.errors import FailureKind
from gym_core.rollout.output import OutputFiles, RunManifest, write_json
from gym_core.rollout.sink import JsonlSink
from gym_core.types.flat_row import flat_from_record
from gym_core.types.model_call import CallOutcome, EndpointReport, ImageTokens
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
from gym_core.types.rollout import RolloutKey, RolloutRecord, RunRequest
from gym_core.types.session import CaptureSummary
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import JsonObject
from tests.fakes.rollouts import make_record, make_task

IMAGE_TOKEN = 7
SIDE_PX = 28
ANSWER = "it is red"
ENDPOINT = EndpointReport(
    ok=True,
    message="",
    model="tiny",
    gives_logprobs=True,
    gives_token_ids=True,
    logprobs_mode="raw",
    image_tokens=ImageTokens(token_id=IMAGE_TOKEN, side_px=SIDE_PX),
)


def picture(width: int, height: int, colour: str) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (width * SIDE_PX, height * SIDE_PX), colour).save(content, "PNG")
    return content.getvalue()


def damage(run: "FakeRun", content: bytes, *, is_told: bool = True) -> None:
    """Overwrite the end of a kept picture; its size stays, and its time too unless the damage `is_told` by it."""
    path = run.assets.path(run.assets.put(content))
    before = path.stat()
    path.write_bytes(content[:-20] + bytes(20))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + is_told))


@dataclass
class FakeSession:
    """Calls of one conversation, in the order in which they are made. Text is one token a character."""

    assets: AssetStore
    messages: list[JsonObject] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)

    def say(self, role: str, text: str, *pictures: tuple[bytes, int], call: str = "") -> None:
        """A message of the prompt; each picture with the number of its placeholders."""
        parts: list[JsonObject] = [{"type": "text", "text": text}]
        self.ids += [1, *map(ord, text)]
        for content, placeholders in pictures:
            url = make_reference(self.assets.put(content))
            parts.append({"type": "image_url", "image_url": {"url": url}})
            self.ids += [2, *[IMAGE_TOKEN] * placeholders, 3]
        self.messages.append({"role": role, "content": parts} | ({"tool_call_id": call} if call else {}))

    def answer(
        self,
        text: str,
        *,
        tool: str = "",
        sampled: Sequence[int] | None = None,
        facts: JsonObject | None = None,
        has_ids: bool = True,
    ) -> None:
        """One call: its answer joins the conversation."""
        number = len(self.calls)
        sampled = [*map(ord, text), 4] if sampled is None else list(sampled)
        calls = [{"id": f"c{number}", "name": tool, "arguments": "{}"}] if tool else []
        answer = {
            "content": text,
            "reasoning": "",
            "tool_calls": calls,
            "finish_reason": "tool_calls" if tool else "stop",
            "input_tokens": len(self.ids),
            "output_tokens": len(sampled),
        }
        base: JsonObject = {
            "call_id": f"call-{number}",
            "session_id": "",
            "index": number,
            "sent_at": float(number),
            "outcome": CallOutcome.ANSWERED,
            "answer": answer,
            "gaps": [] if has_ids else ["no_prompt_ids"],
            "sampling": {"temperature": 0.5},
            "policy_version": 3,
        }
        logprobs = np.array([-1 / (n + 2) for n in range(len(sampled))], np.float32)
        tokens = CallTokens(np.array(self.ids, np.int32), np.array(sampled, np.int32), logprobs) if has_ids else None
        encoded = [msgspec.json.encode(message) for message in self.messages]
        self.calls.append(CallRecord(base | (facts or {}), encoded, b"[]", tokens))
        message: JsonObject = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
            ]
        self.messages.append(message)
        self.ids += sampled


@dataclass(frozen=True)
class FakeRun:
    """`folder/run.jsonl` and what belongs to it."""

    folder: Path
    endpoint: EndpointReport | None = ENDPOINT

    @property
    def files(self) -> OutputFiles:
        return OutputFiles(self.folder / "run.jsonl")

    @property
    def assets(self) -> AssetStore:
        return AssetStore(self.files.assets)

    def session(self) -> FakeSession:
        return FakeSession(self.assets)

    def tool_session(self) -> FakeSession:
        """Two pictures, the second one read by a tool; two calls."""
        session = self.session()
        session.say("system", "look")
        session.say("user", "what?", (picture(2, 1, "red"), 2))
        session.answer("reading", tool="read")
        session.say("tool", "here", (picture(1, 3, "blue"), 3), call="c0")
        session.answer(ANSWER)
        return session

    def record(
        self, number: int, session: FakeSession, *, failure: FailureKind | None = None, **capture: object
    ) -> RolloutRecord:
        """A rollout whose calls are kept."""
        key = RolloutKey(task_hash=f"{number:064x}", repeat=0)
        request = RunRequest(
            key=key, task_index=number, task=make_task(number), environment="puzzles", rollout_id=f"t{number}-r0"
        )
        record = make_record(request)
        path = capture_path(self.files.captures, f"s{number}")
        if session.calls:
            recorder = CallRecorder(path)
            for made in session.calls:
                call = replace(made, facts=made.facts | {"session_id": f"s{number}"})
                recorder.intend({name: call.facts[name] for name in ("call_id", "session_id", "index", "sent_at")})
                recorder.keep(call)
            recorder.close()
        summary = CaptureSummary.model_validate({"session_id": f"s{number}", "calls": len(session.calls)} | capture)
        response = ResponsesReply(id="r", created_at=1.0, status="completed", output=_transcript(session))
        evidence = record.evidence.model_copy(update={"capture": summary, "response": response})
        verification = record.verification
        if failure is not None:
            verification = Verification.failed(Failure(kind=failure, reason="it was the fake"))
        return record.model_copy(update={"evidence": evidence, "verification": verification})

    def write(self, records: Sequence[RolloutRecord]) -> Path:
        """The run's output file."""
        manifest = RunManifest(run_hash="h", identity={}, endpoint=self.endpoint)
        with JsonlSink(self.files.rollouts) as sink:
            for record in records:
                sink.append(flat_from_record(record))
        write_json(self.files.manifest, manifest.model_dump(mode="json"))
        return self.files.rollouts


def _transcript(session: FakeSession) -> list[OutputItem]:
    """As the harness tells it."""
    items: list[OutputItem] = []
    for message in session.messages:
        if message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            items.append(OutputMessage(id="m", content=[OutputText(text=message["content"])]))
            items += [FunctionCall(call_id=call["id"], name="read", arguments="{}") for call in calls]
        elif message["role"] == "tool":
            parts = [_part(part) for part in message["content"]]
            items.append(FunctionCallOutput(call_id=message["tool_call_id"], output=parts))
    return items


def _part(part: JsonObject) -> InputText | InputImage:
    if part["type"] == "text":
        return InputText(text=part["text"])
    return InputImage(image_url=part["image_url"]["url"])
