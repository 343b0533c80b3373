"""One rollout, read whole once and shown in parts: the record of a finished one, the calls so far of another."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from gym_core.capture.recorder import CAPTURE_SUFFIX
from gym_core.types.responses import InputMessage, OutputItem, ResponsesBody
from gym_core.types.rollout import EpisodeTiming
from gym_core.types.session import AgentReport, CaptureSummary, SandboxEnforcement
from gym_core.viewer.calls import SessionCalls, call_view, read_session_calls
from gym_core.viewer.chat_items import input_parts, items_of_answer, items_of_messages, split_prompt
from gym_core.viewer.grade import grade_of
from gym_core.viewer.pictures import Gallery, UrlOf
from gym_core.viewer.run import NotInRun, ViewedRun
from gym_core.viewer.texts import Texts
from gym_core.viewer.turns import make_turns, split_parts
from gym_core.viewer.types import (
    BrokenAttempt,
    CallView,
    CaptureHealth,
    Grade,
    Prompt,
    RolloutRow,
    RolloutView,
    TextSlice,
    TimeSpan,
    Turn,
    TurnsPage,
)

SHOWN_CHARACTERS = 12_000
"""Of each text at first. Sixty turns of the longest outputs are then a reply of a few megabytes."""
TURNS_A_PAGE = 100


@dataclass
class RolloutReading:
    """Made by `read_rollout`. Its parts name each other by ids that are good for this reading and its equals."""

    run: str
    row: RolloutRow
    state: Literal["finished", "running"]
    status: str
    prompts: list[Prompt]
    all_turns: list[Turn]
    calls: SessionCalls
    gallery: Gallery
    texts: Texts
    clip_limit: int
    grade: Grade | None = None
    capture: CaptureSummary | None = None
    timing: EpisodeTiming = field(default_factory=EpisodeTiming)
    sandbox: SandboxEnforcement | None = None
    agent: AgentReport = field(default_factory=AgentReport)
    attempts: list[BrokenAttempt] = field(default_factory=list)
    _call_texts: dict[int, Texts] = field(default_factory=dict)

    def view(self, previous: str | None, next_: str | None, *, turns: int = TURNS_A_PAGE) -> RolloutView:
        return RolloutView(
            run=self.run,
            row=self.row,
            state=self.state,
            status=self.status,
            prompts=self.prompts,
            turns=self.turns(0, turns),
            pictures=self.gallery.all(),
            grade=self.grade,
            times=time_spans(self.timing, self.capture),
            calls=list(self.calls.facts),
            health=self._health(),
            sandbox=self.sandbox,
            agent_notes=[note[:200] for note in self.agent.notes[:50]],
            agent_versions=self.agent.versions,
            attempts=self.attempts,
            previous=previous,
            next=next_,
        )

    def turns(self, start: int, limit: int = TURNS_A_PAGE) -> TurnsPage:
        return TurnsPage(start=start, total=len(self.all_turns), turns=self.all_turns[start : start + limit])

    def call(self, index: int) -> CallView:
        """Raises NotInRun."""
        place = next((n for n, facts in enumerate(self.calls.facts) if facts.index == index), None)
        if place is None:
            raise NotInRun(f"no call {index} in {self.row.id}")
        texts = self._call_texts[index] = Texts(f"c{index}-", limit=self.clip_limit)
        return call_view(self.calls, place, self.gallery, texts)

    def text(self, id: str, start: int) -> TextSlice:
        """Raises NotInRun."""
        try:
            head = id.partition("-")[0]
            if head[:1] == "c" and head[1:].isascii() and head[1:].isdigit():
                index = int(head[1:6])
                if index not in self._call_texts:
                    self.call(index)
                return self._call_texts[index].slice(id, start)
            return self.texts.slice(id, start)
        except KeyError:
            raise NotInRun(f"no text {id[:40]!r} in {self.row.id}") from None

    def _health(self) -> CaptureHealth:
        capture, sequences = self.capture, self.calls.sequences
        gaps = Counter(gap.value for facts in self.calls.facts for gap in facts.gaps)
        calls = capture.calls if capture else len(self.calls.facts)
        problem = self.calls.problem
        if not problem and capture is not None and capture.calls != len(self.calls.facts):
            problem = f"{capture.calls} calls were made, {len(self.calls.facts)} are in the capture file"
        last_failure = ": ".join(filter(None, (capture.last_failure, capture.last_failure_message))) if capture else ""
        return CaptureHealth(
            problem=problem,
            complete=capture.capture_complete if capture else False,
            calls=calls,
            failed_calls=capture.failed_calls if capture else sum(f.outcome == "failed" for f in self.calls.facts),
            has_token_ids=capture.has_token_ids if capture else False,
            has_logprobs=capture.has_logprobs if capture else False,
            notes=capture.notes if capture else {},
            sequences=sequences.summary if sequences else None,
            drifts=list(sequences.drifts)[:200] if sequences else [],
            gaps=dict(gaps),
            last_failure=last_failure[:500],
        )


def read_rollout(run: ViewedRun, rollout: str, url_of: UrlOf, *, clip_limit: int = SHOWN_CHARACTERS) -> RolloutReading:
    """Raises NotInRun, and ValueError or OSError for a line that cannot be read."""
    try:
        facts = run.facts(rollout)
    except NotInRun:
        return _read_running(run, rollout, url_of, clip_limit)
    record = run.record(facts)
    evidence = record.evidence
    response, capture = evidence.response, evidence.capture
    final_answer = response.final_text if response else None
    calls = read_session_calls(run.files.captures, capture.session_id if capture else None, final_answer)
    gallery = Gallery(run.assets, url_of, frozenset(capture.images) if capture else None)
    texts = Texts("r-", limit=clip_limit)
    prompts = _prompts(record.task.responses_create_params, gallery, texts)
    grade = grade_of(record, texts)
    turns = make_turns(response.output if response else [], calls, gallery, texts)
    for sha256 in capture.images if capture else []:
        gallery.picture(sha256)
    return RolloutReading(
        run=run.name,
        row=facts.row,
        state="finished",
        status=response.status if response else "",
        prompts=prompts,
        all_turns=turns,
        calls=calls,
        gallery=gallery,
        texts=texts,
        clip_limit=clip_limit,
        grade=grade,
        capture=capture,
        timing=evidence.timing,
        sandbox=evidence.sandbox,
        agent=evidence.agent,
        attempts=run.attempts_of(record.key.task_hash, record.key.repeat),
    )


def time_spans(timing: EpisodeTiming, capture: CaptureSummary | None) -> list[TimeSpan]:
    """Where an episode's time went, in the order of its steps; the parts add up to the whole."""
    queued = min(capture.queued_s if capture else 0.0, max(0.0, timing.respond - timing.model))
    tools = max(0.0, timing.respond - timing.model - queued)
    known = timing.seed + timing.open + timing.model + queued + tools + timing.verify
    spans = [
        TimeSpan(name="seed", seconds=timing.seed),
        TimeSpan(name="open", seconds=timing.open),
        TimeSpan(name="model", seconds=timing.model),
        TimeSpan(name="queued", seconds=queued),
        TimeSpan(name="tools", seconds=tools),
        TimeSpan(name="verify", seconds=timing.verify),
        TimeSpan(name="other", seconds=max(0.0, timing.total - known)),
    ]
    return [span for span in spans if span.seconds > 0]


def _prompts(body: ResponsesBody, gallery: Gallery, texts: Texts) -> list[Prompt]:
    found = []
    if body.instructions:
        found.append(Prompt(role="instructions", text=texts.clip(body.instructions), images=[]))
    for item in body.items:
        if isinstance(item, InputMessage):
            text, images = split_parts(item.content, gallery)
            found.append(Prompt(role=item.role, text=texts.clip(text), images=images))
    return found


def _read_running(run: ViewedRun, rollout: str, url_of: UrlOf, clip_limit: int) -> RolloutReading:
    """Of the call that was sent last in the main conversation: its messages are the story so far."""
    session = run.in_flight(rollout)
    paths = sorted(run.files.captures.glob(f"{rollout}-a{session.attempt}-*{CAPTURE_SUFFIX}"))
    names = [path.name.removesuffix(CAPTURE_SUFFIX) for path in paths]
    calls = read_session_calls(run.files.captures, names[-1] if names else None, None)
    images = frozenset(sha256 for model in calls.models for sha256 in model.images)
    gallery, texts = Gallery(run.assets, url_of, images), Texts("r-", limit=clip_limit)
    prompts, items = _story(calls, gallery, texts)
    turns = make_turns(items, calls, gallery, texts)
    row = RolloutRow(
        id=rollout,
        task="",
        index=0,
        repeat=0,
        attempts=session.attempt + 1,
        category="",
        subtype="",
        question="",
        gold="",
        answer="",
        reward=None,
        failure=None,
        verdict="",
        turns=len(turns),
        tool_calls=sum(len(facts.tools) for facts in calls.facts),
        images=len(images),
        input_tokens=sum(facts.input_tokens for facts in calls.facts),
        output_tokens=sum(facts.output_tokens for facts in calls.facts),
        seconds=max((facts.started_s + facts.seconds for facts in calls.facts), default=0.0),
        model_seconds=sum(facts.seconds for facts in calls.facts),
        finished_at=session.last_call_at,
        drifts=0,
        flags=[],
    )
    return RolloutReading(run.name, row, "running", "", prompts, turns, calls, gallery, texts, clip_limit)


def _story(calls: SessionCalls, gallery: Gallery, texts: Texts) -> tuple[list[Prompt], Sequence[OutputItem]]:
    main = calls.main
    if not main:
        return [], []
    place = max(main, key=lambda n: (len(calls.captured[n].messages), n))
    model_call = calls.captured[place].as_model_call()
    before, after = split_prompt(model_call.messages)
    prompts = []
    for message in before:
        text, images = split_parts(input_parts(message.get("content")), gallery)
        prompts.append(Prompt(role=str(message.get("role", ""))[:50], text=texts.clip(text), images=images))
    items: list[OutputItem] = list(items_of_messages(after))
    if model_call.answer is not None:
        items += items_of_answer(model_call.answer)
    return prompts, items
