"""What OpenCode wrote down about a run, read into values: its event lines, or its export. Pure.

Both come out of a sandbox and are hostile: unknown fields and part kinds are skipped, what does not parse is counted,
and nothing here raises on content. The two sources hold the same parts; events lack what was unfinished at the end.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

T = TypeVar("T")

_ABSENT = msgspec.Raw(b"null")
"""msgspec knows no optional raw values."""


class Attachment(msgspec.Struct, frozen=True):
    mime: str = ""
    url: str = ""


class ToolState(msgspec.Struct, frozen=True):
    status: str = ""
    """"pending", "running", "completed" or "error"."""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    output: str | None = None
    error: str | None = None
    attachments: list[Attachment] = []

    @property
    def arguments(self) -> str:
        """JSON text without white space, as OpenCode sends it back to the model."""
        return msgspec.json.format(bytes(self.input), indent=-1).decode("utf-8", "replace")


class Tokens(msgspec.Struct, frozen=True):
    total: float | None = None
    input: float | None = None
    output: float | None = None


class Part(msgspec.Struct, frozen=True, rename={"message_id": "messageID", "call_id": "callID"}):
    """One piece of a message; which fields are set depends on `type`."""

    id: str
    type: str
    message_id: str = ""
    text: str | None = None
    synthetic: bool = False
    """Put there by OpenCode, not by the model."""
    tool: str | None = None
    call_id: str | None = None
    state: ToolState | None = None
    reason: str | None = None
    """Of a "step-finish": "stop", "tool-calls", "length", "content-filter" or "unknown"."""
    tokens: Tokens | None = None


class ErrorData(msgspec.Struct, frozen=True, rename={"status": "statusCode", "body": "responseBody"}):
    message: str = ""
    status: int | None = None
    body: str | None = None


class RunError(msgspec.Struct, frozen=True, rename={"tag": "_tag"}):
    """An error that ended a call or the run."""

    name: str = ""
    tag: str = ""
    data: ErrorData = ErrorData()

    @property
    def text(self) -> str:
        return f"{self.data.message} {self.data.body or ''}"


@dataclass(frozen=True)
class AgentMessage:
    """One assistant message, or a user message that OpenCode made up during the run."""

    id: str
    role: str
    parts: Sequence[Part]
    """In the order in which they began."""
    is_compaction: bool = False

    @property
    def finish(self) -> Part | None:
        return next((part for part in reversed(self.parts) if part.type == "step-finish"), None)

    @property
    def text(self) -> str:
        return "".join(part.text or "" for part in self.parts if part.type == "text")

    @property
    def tools(self) -> list[Part]:
        return [part for part in self.parts if part.type == "tool"]


@dataclass(frozen=True)
class Journal:
    messages: Sequence[AgentMessage] = ()
    errors: Sequence[RunError] = ()
    session_id: str | None = None
    version: str | None = None
    """OpenCode's; only an export has it."""
    unreadable: int = 0
    """Lines or parts that did not parse."""
    is_cut: bool = False
    """The file ends in the middle of a line."""

    @property
    def last(self) -> AgentMessage | None:
        """The last assistant message."""
        return next((message for message in reversed(self.messages) if message.role == "assistant"), None)

    @property
    def ends_cleanly(self) -> bool:
        """Whether nothing can be missing: every line parsed, no error, and the last message finished its last step."""
        complete = not self.is_cut and not self.unreadable and not self.errors
        finish = self.last.finish if self.last else None
        return complete and finish is not None and finish.reason in ("stop", "length")


class _Event(msgspec.Struct, frozen=True, rename={"session_id": "sessionID"}):
    type: str
    session_id: str = ""
    part: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


class _MessageInfo(msgspec.Struct, frozen=True):
    id: str
    role: str
    mode: str | None = None
    error: msgspec.Raw = _ABSENT


class _Message(msgspec.Struct, frozen=True):
    info: _MessageInfo
    parts: list[msgspec.Raw] = []


class _SessionInfo(msgspec.Struct, frozen=True):
    id: str = ""
    version: str | None = None


class _Export(msgspec.Struct, frozen=True):
    info: _SessionInfo
    messages: list[msgspec.Raw] = []


_events = msgspec.json.Decoder(_Event)
_parts = msgspec.json.Decoder(Part)
_errors = msgspec.json.Decoder(RunError)
_messages = msgspec.json.Decoder(_Message)
_exports = msgspec.json.Decoder(_Export)


def read_events(content: bytes) -> Journal:
    """The journal in the lines of `--format json`. Never raises."""
    reading = _Reading()
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        event = reading.decode(_events, line)
        if event is None:
            continue
        reading.session_id = reading.session_id or event.session_id
        if event.type == "error":
            reading.add_error(event.error)
        elif bytes(event.part) != b"null":
            reading.add_part(event.part)
    return reading.journal(is_cut=bool(content) and not content.endswith(b"\n"))


def read_export(content: bytes) -> Journal | None:
    """The journal in `opencode export`'s output; None when it is not one, or cut. Never raises."""
    reading = _Reading()
    export = reading.decode(_exports, content)
    if export is None:
        return None
    reading.session_id = export.info.id
    for raw in export.messages:
        message = reading.decode(_messages, bytes(raw))
        if message is not None:
            reading.add_message(message)
    journal = reading.journal(version=export.info.version)
    return replace(journal, messages=_without_prompt(journal.messages))


@dataclass
class _Draft:
    role: str = "assistant"
    is_compaction: bool = False
    parts: dict[str, Part] = field(default_factory=dict)


@dataclass
class _Reading:
    """A journal in the making."""

    drafts: dict[str, _Draft] = field(default_factory=dict)
    errors: list[RunError] = field(default_factory=list)
    session_id: str = ""
    unreadable: int = 0

    def decode(self, decoder: "msgspec.json.Decoder[T]", content: bytes) -> T | None:
        try:
            return decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        try:
            return decoder.decode(_mended(content))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self.unreadable += 1
            return None

    def add_part(self, raw: msgspec.Raw, message_id: str | None = None) -> None:
        part = self.decode(_parts, bytes(raw))
        if part is not None:
            draft = self.drafts.setdefault(message_id or part.message_id, _Draft())
            draft.parts[part.id] = part

    def add_error(self, raw: msgspec.Raw) -> None:
        self.errors.append(self.decode(_errors, bytes(raw)) or RunError(name="UnreadableError"))

    def add_message(self, message: _Message) -> None:
        info = message.info
        self.drafts[info.id] = _Draft(info.role, is_compaction=info.mode == "compaction")
        for raw in message.parts:
            self.add_part(raw, info.id)
        if bytes(info.error) != b"null":
            self.add_error(info.error)

    def journal(self, *, version: str | None = None, is_cut: bool = False) -> Journal:
        messages = [_message(message_id, draft) for message_id, draft in sorted(self.drafts.items())]
        return Journal(
            messages=messages,
            errors=self.errors,
            session_id=self.session_id or None,
            version=version,
            unreadable=self.unreadable,
            is_cut=is_cut,
        )


def _message(message_id: str, draft: _Draft) -> AgentMessage:
    # Ids of messages and parts sort by time; events come in the order of completion.
    parts = [draft.parts[part_id] for part_id in sorted(draft.parts)]
    texts = [part for part in parts if part.type == "text"]
    is_made_up = bool(texts) and len(texts) == len(parts) and all(part.synthetic for part in texts)
    return AgentMessage(message_id, "user" if is_made_up else draft.role, parts, draft.is_compaction)


def _without_prompt(messages: Iterable[AgentMessage]) -> list[AgentMessage]:
    """An export begins with the user's message, which is the task and no part of what the agent did."""
    kept = list(messages)
    if kept and kept[0].role == "user":
        del kept[0]
    return kept


def _mended(content: bytes) -> bytes:
    """The same JSON with half characters replaced: JavaScript writes half of a pair that it cut, msgspec refuses it."""
    return json.dumps(json.loads(content), ensure_ascii=False).encode("utf-8", "replace")
