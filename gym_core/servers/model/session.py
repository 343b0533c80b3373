"""One session of the model server: its key, what it may do, what was seen of it, and where that is kept."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gym_core.capture.images import AssetStore
from gym_core.capture.recorder import CallRecord, CallRecorder, capture_path
from gym_core.errors import FailureKind
from gym_core.http.auth import new_token
from gym_core.servers.model.answer import Answer
from gym_core.servers.model.clock import Clock
from gym_core.servers.model.config import SessionLimits
from gym_core.servers.model.long_strings import Allowance, LongStrings
from gym_core.servers.model.messages import IssuedCall, MessageMemory, only_hash
from gym_core.servers.model.prompt_ids import PromptMemory
from gym_core.servers.model.refusal import Refusal, limit_reached
from gym_core.servers.model.system_prompt import SystemPrompts
from gym_core.servers.model.tips import Tips
from gym_core.servers.model.waits import Waits
from gym_core.types.model_call import CaptureGap
from gym_core.types.session import CaptureSessionRequest, CaptureSummary
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

MAX_NOTE_PHRASES = 64
"""Different ones a session; a sandbox chooses part of their text."""
MAX_ISSUED_CALLS = 20_000
MAX_ISSUED_BYTES = 32 << 20
_MINUTE_S = 60.0
_OF_LOGPROBS = frozenset({CaptureGap.IDS_NOT_LOGPROBS, CaptureGap.BAD_LOGPROB})


class ModelSession:
    """What this server holds for one session."""

    def __init__(
        self,
        request: CaptureSessionRequest,
        state_dir: Path,
        limits: SessionLimits,
        clock: Clock,
        allowance: Allowance | None = None,
    ) -> None:
        self.id = request.session_id
        self.key = new_token()
        self.sampling = request.sampling
        self.affinity = 0
        """Which endpoint is its own, counted on past the last of them; whoever opens the session says so."""
        self.notes: Counter[str] = Counter()
        self.has_used_tools = False
        self.used_at = clock.monotonic()
        self.first_call_at: float | None = None
        self.calls = 0
        self.failed_calls = 0
        self.last_failure: FailureKind | None = None
        self.last_failure_message: str | None = None
        self.last_finish_reason: str | None = None
        self.input_tokens = 0
        self.cached_input_tokens = 0
        self.uncounted_calls = 0
        self.output_tokens = 0
        self.model_seconds = 0.0
        self.waits = Waits()
        self.answered_with_ids = 0
        self.answered_with_logprobs = 0
        self.answered = 0
        self.tool_calls = 0
        self.images: dict[str, None] = {}
        self.is_capture_complete = True
        self._clock = clock
        self._limits = limits
        self._tasks: set[asyncio.Task[object]] = set()
        self._started: deque[float] = deque()
        self._request_bytes = 0
        self._in_flight = 0
        self._sandbox_host: str | None = None
        self._issued_bytes = 0
        self._store = AssetStore(Path(request.assets_dir) if request.assets_dir else state_dir / "assets")
        self.memory = MessageMemory(self._keep_image)
        self.long_strings = LongStrings(allowance or Allowance())
        self.prompts = PromptMemory()
        self.system_prompts = SystemPrompts()
        self.tips = Tips()
        captures_dir = Path(request.captures_dir) if request.captures_dir else state_dir / "captures"
        self._recorder: CallRecorder | None = None
        try:
            self._recorder = CallRecorder(capture_path(captures_dir, self.id))
        except (OSError, ValueError) as error:
            self._capture_failed("open", error)

    def may_come_from(self, host: str) -> bool:
        """Whether a call from this address can be this session's.

        A local sandbox calls from a loopback address of its own (`box/relay.py`). Its first call binds the
        key to that address, so another sandbox that learned the key is turned away.
        """
        if self._sandbox_host is None and host.startswith("127.") and not host.startswith("127.0."):
            self._sandbox_host = host
        return self._sandbox_host is None or host == self._sandbox_host

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Room for one call; asked before its body is read. Raises Refusal when the session has had its share."""
        with self.refusals_noted():
            self._check_limits()
        self.first_call_at = self.first_call_at or self._clock.time()
        self._started.append(self._clock.monotonic())
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self.used_at = self._clock.monotonic()

    def count_bytes(self, n_bytes: int) -> None:
        """Raises Refusal."""
        self._request_bytes += n_bytes
        if self._request_bytes > self._limits.request_bytes:
            with self.refusals_noted():
                raise limit_reached(f"this session sent {self._limits.request_bytes} bytes")

    @contextmanager
    def ended_by_close(self) -> Iterator[None]:
        """The current task is cancelled when the session closes."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("not in a task")
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    @contextmanager
    def refusals_noted(self) -> Iterator[None]:
        """Refusals that leave the block are in the notes by their code."""
        try:
            yield
        except Refusal as refusal:
            self.note(f"refused:{refusal.code}")
            raise

    def _check_limits(self) -> None:
        limits, now = self._limits, self._clock.monotonic()
        while self._started and now - self._started[0] > _MINUTE_S:
            self._started.popleft()
        if self._in_flight >= limits.calls_in_flight:
            raise limit_reached(f"this session already has {limits.calls_in_flight} calls in flight")
        if len(self._started) >= limits.calls_per_minute:
            raise limit_reached(f"this session made {limits.calls_per_minute} calls within a minute")
        if self.calls >= limits.calls:
            raise limit_reached(f"this session made {limits.calls} calls")
        if self.output_tokens >= limits.output_tokens:
            raise limit_reached(f"this session was answered {limits.output_tokens} tokens")

    def idle_s(self, now: float) -> float:
        """Seconds without a call; 0 while one is in flight."""
        return 0.0 if self._in_flight else now - self.used_at

    def note(self, phrase: str) -> None:
        if phrase in self.notes or len(self.notes) < MAX_NOTE_PHRASES:
            self.notes[phrase] += 1

    def issue(self, answer: Answer) -> Answer:
        """The answer with ids of this session, remembered so that its calls can be recognised when they come back."""
        answer = answer.with_own_ids(self.memory.issued)
        for call in answer.calls:
            self._remember(call)
        return answer

    def _remember(self, call: IssuedCall) -> None:
        self._issued_bytes += len(call.arguments)
        if len(self.memory.issued) < MAX_ISSUED_CALLS and self._issued_bytes < MAX_ISSUED_BYTES:
            self.memory.issued[call.id] = call
        else:
            self.note("issued_calls_forgotten")

    def count_answer(self, answer: Answer, *, seconds: float) -> None:
        self.answered += 1
        self.answered_with_ids += _OF_LOGPROBS.issuperset(answer.gaps)
        self.answered_with_logprobs += not answer.gaps
        self.tool_calls += len(answer.calls)
        self.input_tokens += answer.input_tokens
        self.cached_input_tokens += answer.cached_input_tokens
        self.uncounted_calls += not answer.has_usage
        self.output_tokens += answer.output_tokens
        self.model_seconds += seconds
        self.last_finish_reason = answer.finish_reason
        self.last_failure = self.last_failure_message = None

    def count_failure(self, kind: FailureKind | None, message: str) -> None:
        self.failed_calls += 1
        self.last_failure, self.last_failure_message = kind, message[:1000]

    def intend(self, facts: JsonObject) -> None:
        if self._recorder:
            try:
                self._recorder.intend(facts)
            except OSError as error:
                self._capture_failed("intend", error)

    def keep(self, record: CallRecord) -> None:
        if self._recorder:
            try:
                self._recorder.keep(record)
            except OSError as error:
                self._capture_failed("keep", error)

    def _keep_image(self, content: bytes) -> str:
        """Never breaks the call: an image that cannot be kept leaves its hash and an incomplete capture."""
        try:
            sha256 = self._store.put(content)
        except OSError as error:
            self._capture_failed("image", error)
            sha256 = only_hash(content)
        return sha256

    def _capture_failed(self, what: str, error: Exception) -> None:
        self.is_capture_complete = False
        self.note(f"capture_failed:{what}")
        log.warning("capture failed", extra={"session": self.id, "what": what, "error": str(error)[:200]})

    def summary(self) -> CaptureSummary:
        return CaptureSummary(
            session_id=self.id,
            calls=self.calls,
            failed_calls=self.failed_calls,
            last_failure=self.last_failure,
            last_failure_message=self.last_failure_message,
            first_call_at=self.first_call_at,
            last_finish_reason=self.last_finish_reason,
            tool_calls=self.tool_calls,
            input_tokens=self.input_tokens,
            cached_input_tokens=self.cached_input_tokens,
            output_tokens=self.output_tokens,
            uncounted_calls=self.uncounted_calls,
            model_seconds=self.model_seconds,
            queued_s=self.waits.seconds(self._clock.monotonic()),
            images=list(self.images),
            has_token_ids=0 < self.answered == self.answered_with_ids,
            has_logprobs=0 < self.answered == self.answered_with_logprobs,
            capture_complete=self.is_capture_complete,
            notes=dict(self.notes),
        )

    async def close(self) -> None:
        """End the calls in flight, and the file."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        self.long_strings.close()
        if self._recorder:
            self._recorder.close()
