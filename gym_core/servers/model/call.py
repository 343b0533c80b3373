"""One call of a session while it runs, and the record that is made of it however it ends."""

import uuid
from dataclasses import dataclass, field

from msgspec import Raw

from gym_core.capture.recorder import CallRecord
from gym_core.errors import FailureKind
from gym_core.servers.model.answer import Answer
from gym_core.servers.model.endpoint import Progress
from gym_core.servers.model.messages import ReadMessage
from gym_core.servers.model.request import Envelope
from gym_core.servers.model.session import ModelSession
from gym_core.types.model_call import CallOutcome
from gym_core.types.wire import JsonObject


@dataclass(frozen=True)
class Failed:
    kind: FailureKind | None
    """None when nobody failed: the client went away."""
    message: str


@dataclass
class Call:
    """One call of a session, from its arrival on."""

    session: ModelSession
    index: int
    envelope: Envelope
    messages: list[ReadMessage]
    images_added: list[str]
    arrived: float
    """Monotonic."""
    sent_at: float
    id: str = field(default_factory=lambda: f"mc_{uuid.uuid4().hex}")
    progress: Progress = field(default_factory=Progress)
    notes: list[str] = field(default_factory=list)
    sending: list[Raw] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.progress.waits = self.session.waits

    @property
    def is_restored(self) -> bool:
        """Whether a tool call went out as the model wrote it, and not as the harness re-serialised it."""
        return any(message.rewritten is not None for message in self.messages)

    def intend(self) -> None:
        self.session.intend(
            {"call_id": self.id, "session_id": self.session.id, "index": self.index, "sent_at": self.sent_at}
        )

    def keep(
        self, outcome: CallOutcome, *, now: float, answer: Answer | None = None, failure: Failed | None = None
    ) -> None:
        """`now` is monotonic."""
        for note in self.notes:
            self.session.note(note)
        tools = bytes(self.envelope.tools) if self.envelope.has_tools else b""
        messages = [message.kept for message in self.messages]
        facts = self._facts(outcome, now, answer, failure)
        came = answer or self.progress.partial()
        facts["gaps"] = list(came.gaps) if came else None
        heads = [head for message in self.messages for head in message.url_heads]
        facts |= {"image_url_heads": {place: head for place, head in enumerate(heads) if head}} if any(heads) else {}
        self.session.keep(CallRecord(facts, messages, tools, came.tokens if came else None))

    def _facts(self, outcome: CallOutcome, now: float, answer: Answer | None, failure: Failed | None) -> JsonObject:
        progress = self.progress
        return {
            "call_id": self.id,
            "session_id": self.session.id,
            "index": self.index,
            "sent_at": self.sent_at,
            "outcome": outcome,
            "sampling": progress.sent.sampling if progress.sent else {},
            "images": [image for message in self.messages for image in message.images],
            "images_added": self.images_added,
            "answer": answer.for_record().model_dump() if answer else None,
            "failure_kind": failure.kind if failure else None,
            "failure_message": failure.message[:2000] if failure else None,
            "endpoint_status": progress.status,
            "attempts": progress.attempts,
            "endpoint": progress.endpoint,
            "policy_version": progress.policy_version,
            "policy_version_end": progress.policy_version_end,
            "timings": {
                "queued_s": round(progress.queued_s, 6),
                "first_byte_s": None if progress.first_byte_s is None else round(progress.first_byte_s, 6),
                "total_s": round(now - self.arrived, 6),
            },
            "notes": self.notes,
        }
