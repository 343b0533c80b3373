"""A saved run that nobody played, written by the product's own writers."""

from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gym_core.capture.images import AssetStore, make_reference
from gym_core.errors import FailureKind
from gym_core.launch.identity import identity_hash
from gym_core.rollout.output import OutputFiles, RunManifest, RunOutput, write_json
from gym_core.rollout.saved import SavedRun
from gym_core.rollout.sink import encode_line
from gym_core.statistics.outcome import outcome_of
from gym_core.statistics.report import aggregate
from gym_core.types.flat_row import flat_from_record
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.model_call import EndpointReport
from gym_core.types.responses import InputImage, InputMessage, InputText, ResponsesBody, ResponsesReply, Usage
from gym_core.types.rollout import EpisodeEvidence, EpisodeTiming, Failed, RolloutKey, RolloutRecord, RunRequest
from gym_core.types.session import AgentReport, SandboxEnforcement
from gym_core.types.task import Task
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import JsonObject
from tests.fakes.made_sessions import MadeSession, MadeTurn

ENVIRONMENT = "made_puzzles"
STARTED_AT = 1_790_000_000.0
_SETUP_S, _VERIFY_S = 0.5, 0.3
ENDPOINT = EndpointReport(
    ok=True, answers=True, message="", model="made-vl-7b", served_models=["made-vl-7b"], accepts_images=True
)
SANDBOX = SandboxEnforcement(
    provider="local",
    mechanism="bubblewrap 0.11.0",
    network="exact_port",
    memory="cgroup_v2",
    seccomp=True,
    user="uid_per_sandbox",
)


@dataclass(frozen=True)
class MadeTask:
    question: str
    gold: str
    picture: bytes | None = None
    category: str = "Visual Tracking"
    subtype: str = "Maze"
    task_id: str = "0"
    taskset: str = "made"
    image_url: str = ""
    """Instead of the reference to `picture`."""
    fields: JsonObject = field(default_factory=dict)
    """More of the task's own."""

    def pinned(self, assets: AssetStore) -> Task:
        """With its picture in the assets folder."""
        url = self.image_url or (make_reference(assets.put(self.picture)) if self.picture else "")
        parts = [InputImage(image_url=url)] if url else []
        return Task(
            id=TaskId(taskset=self.taskset, task_id=self.task_id),
            responses_create_params=ResponsesBody(
                input=[InputMessage(role="user", content=[*parts, InputText(text=self.question)])]
            ),
            task_data={
                "question": self.question,
                "expected_answer": self.gold,
                "category": self.category,
                "l2_category": self.subtype,
                **self.fields,
            },
        )


@dataclass(frozen=True)
class MadeRollout:
    """One that finished, or an attempt at one that broke."""

    task: MadeTask
    turns: Sequence[MadeTurn] = ()
    index: int = 0
    repeat: int = 0
    answer: str | None = None
    """That the grader found; None for none."""
    reward: float = 1.0
    """Without a failure."""
    failure: FailureKind | None = None
    reason: str = "it was made so"
    details: JsonObject = field(default_factory=dict)
    """More columns of the grader, or others instead of its own."""
    shaping: dict[str, float] = field(default_factory=dict)
    measures: dict[str, float] = field(default_factory=dict)
    attempt: int = 0
    has_token_ids: bool = False
    drifts_at: frozenset[int] = frozenset()
    keeps_calls: bool = True
    """False leaves no capture of its session."""
    agent: AgentReport | None = None
    """Instead of what its turns say."""

    @property
    def started_at(self) -> float:
        return STARTED_AT + 30.0 * self.index + 7.0 * self.repeat

    @cached_property
    def verification(self) -> Verification:
        if self.failure is not None:
            failure = Failure(kind=self.failure, reason=self.reason, stage="respond")
            return Verification.failed(failure, self._columns())
        measures = self.measures
        return Verification(reward=self.reward, shaping=self.shaping, details=self._columns(), measures=measures)

    def _columns(self) -> JsonObject:
        is_right = self.failure is None and self.reward == 1.0
        judged = self.answer is not None and self.failure is None
        return {
            "extracted_answer": self.answer,
            "answer_form": "boxed" if self.answer is not None else None,
            "matcher_equal": is_right,
            "judge_verdict": ("equivalent" if is_right else "different") if judged else None,
            "judge_reason": "the same value" if is_right else "another value" if judged else None,
            "judge_raw_reply": '{"verdict": "..."}' if judged else None,
            "judge_model": "a-judge" if judged else None,
        } | self.details


@dataclass
class MadeRun:
    """`folder/name.jsonl` and what belongs to it. Call `plan` once and `write` as often as the run shall grow."""

    folder: Path
    name: str = "run"
    identity: JsonObject = field(default_factory=lambda: {"gym": "0.1.0", "servers": {"judge": {"model": "a-judge"}}})
    endpoint: EndpointReport | None = ENDPOINT
    environment: str = ENVIRONMENT
    argv: Sequence[str] = ("gym", "eval", "run", "--benchmark", "made")
    started_at: float = STARTED_AT
    expected: int = 0

    @property
    def files(self) -> OutputFiles:
        return OutputFiles(self.folder / f"{self.name}.jsonl")

    @property
    def path(self) -> Path:
        return self.files.rollouts

    @cached_property
    def assets(self) -> AssetStore:
        return AssetStore(self.files.assets)

    @property
    def manifest(self) -> RunManifest:
        return RunManifest(
            run_hash=identity_hash(self.identity),
            identity=self.identity,
            versions={"gym": "0.1.0"},
            endpoint=self.endpoint,
            argv=list(self.argv),
            started_at=self.started_at,
        )

    def plan(self, rollouts: Sequence[MadeRollout]) -> None:
        """Say which the run sets out to do."""
        self.expected = len(rollouts)
        with self.opened() as output:
            output.write_inputs([self._request(rollout) for rollout in rollouts])

    def write(self, rollouts: Iterable[MadeRollout]) -> None:
        """Rollouts that finish one after the other, and their calls."""
        with self.opened() as output:
            for rollout in rollouts:
                _finish(output.append(self.record(rollout)))

    def write_broken(self, attempts: Sequence[MadeRollout]) -> None:
        """Attempts that broke and are played again."""
        with self.opened() as output:
            for made in attempts:
                _finish(output.append_failure(self._request(made), self._broken(made)))

    def begin(self, rollout: MadeRollout, n_calls: int) -> None:
        """A rollout that is still played: so many of its calls are there."""
        self._session(rollout, self._request(rollout)).keep_calls(self.files.captures, n_calls)

    def tear(self, rollout: MadeRollout) -> None:
        """Half of a line, as a reader finds it in the middle of a write, or after a kill."""
        line = encode_line(flat_from_record(self.record(rollout)))
        with self.path.open("ab") as file:
            file.write(line[: len(line) // 2])

    def finish(self) -> None:
        """The metrics that the end of a run writes."""
        outcomes = [outcome_of(record) for record in SavedRun(self.path).records()]
        expected = max(self.expected, len(outcomes))
        report = aggregate(outcomes, environment=self.environment, expected=expected)
        write_json(self.files.metrics, report.model_dump(mode="json"))

    def opened(self) -> "closing[RunOutput]":
        """Whoever has it open is the run's one writer."""
        return closing(RunOutput(self.files, self.manifest, resume=True, retry_masked=False))

    def record(self, rollout: MadeRollout) -> RolloutRecord:
        request = self._request(rollout)
        evidence = self._evidence(rollout, request)
        return RolloutRecord(
            key=request.key,
            run_hash=self.manifest.run_hash,
            task_index=request.task_index,
            environment=request.environment,
            task=request.task,
            evidence=evidence,
            verification=rollout.verification,
            attempts=rollout.attempt + 1,
            finished_at=rollout.started_at + evidence.timing.total,
        )

    def _request(self, rollout: MadeRollout) -> RunRequest:
        task = rollout.task.pinned(self.assets)
        key = RolloutKey(task_hash=task.content_hash(), repeat=rollout.repeat)
        return RunRequest(
            key=key,
            task_index=rollout.index,
            task=task,
            environment=self.environment,
            rollout_id=f"t{rollout.index}-r{rollout.repeat}-{key.task_hash[:8]}",
        )

    def _broken(self, rollout: MadeRollout) -> Failed:
        failure = rollout.verification.failure
        assert failure is not None, "an attempt that broke has its failure"
        return Failed(evidence=self._evidence(rollout, self._request(rollout)), failure=failure)

    def _session(self, rollout: MadeRollout, request: RunRequest) -> MadeSession:
        episode = EpisodeId(rollout_id=request.rollout_id, attempt=rollout.attempt)
        return MadeSession(
            session_id=f"{episode}-made",
            question=rollout.task.question,
            pictures=[rollout.task.picture] if rollout.task.picture else [],
            turns=rollout.turns,
            assets=self.assets,
            started_at=rollout.started_at,
            has_token_ids=rollout.has_token_ids,
            drifts_at=rollout.drifts_at,
        )

    def _evidence(self, rollout: MadeRollout, request: RunRequest) -> EpisodeEvidence:
        session = self._session(rollout, request)
        capture, sequences = session.keep_calls(self.files.captures) if rollout.keeps_calls else (None, None)
        usage = Usage()
        if capture is not None:
            total = capture.input_tokens + capture.output_tokens
            usage = Usage(input_tokens=capture.input_tokens, output_tokens=capture.output_tokens, total_tokens=total)
        response = ResponsesReply(
            id=f"resp_{session.session_id}",
            created_at=rollout.started_at,
            status="failed" if rollout.verification.is_masked else "completed",
            output=session.transcript(),
            usage=usage,
        )
        return EpisodeEvidence(
            episode_id=EpisodeId(rollout_id=request.rollout_id, attempt=rollout.attempt),
            response=response,
            agent=rollout.agent or _report(rollout),
            capture=capture,
            sequences=sequences,
            sandbox=SANDBOX,
            timing=EpisodeTiming(
                total=_SETUP_S + session.seconds + _VERIFY_S,
                seed=_SETUP_S * 0.8,
                open=_SETUP_S * 0.2,
                respond=session.seconds,
                verify=_VERIFY_S,
                model=session.model_s,
            ),
        )


def _finish(coroutine: Coroutine[object, object, None]) -> None:
    """One that waits for nothing, as those of `RunOutput`; so a loop that runs already is no hindrance."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


def _report(rollout: MadeRollout) -> AgentReport:
    return AgentReport(
        seconds=sum(turn.call_s + turn.tool_s for turn in rollout.turns),
        tool_calls=dict(Counter(turn.tool for turn in rollout.turns if turn.tool)),
        images_read=sum(len(turn.pictures) for turn in rollout.turns),
        versions={"opencode": "1.17.11"},
    )
