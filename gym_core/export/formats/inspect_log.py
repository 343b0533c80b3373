"""A saved run as an evaluation log of Inspect (`inspect view`, its Python API): one JSON file, a rollout at a time.

Follows the schema of version 2 as inspect-ai 0.3 publishes it. Times are ISO 8601, UTC. Masked rollouts are samples
with an error and without a score: Inspect leaves them out of its means, as we do.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gym_core.capture.images import AssetStore, parse_reference
from gym_core.errors import FailureKind
from gym_core.export.runs import published, run_report
from gym_core.rollout.saved import SavedRun
from gym_core.statistics.outcome import answer_of
from gym_core.statistics.spend import SpendTally, attempt_spend
from gym_core.types.cost import RunPrices, TokenCount
from gym_core.types.metrics import MetricsReport
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputMessage,
    InputPart,
    InputText,
    OutputItem,
    OutputMessage,
    ReasoningItem,
)
from gym_core.types.rollout import RolloutRecord
from gym_core.types.wire import JsonObject

LOG_VERSION = 2
SCORE = "reward"
_STOPS = {FailureKind.OUTPUT_CAP: "max_tokens", FailureKind.CONTEXT_LIMIT: "model_length"}
Pictures = Callable[[str], JsonObject]
"""A picture's reference to the content part that stands for it."""


def write_inspect_log(run: SavedRun, path: Path, *, inline: bool) -> int:
    """The number of samples. With `inline` every picture is in the file, each time that it was shown; else its hash is.

    The file is there whole or not at all. Raises OSError, ConfigError for a run that has not ended.
    """
    report = run_report(run)
    overview = Overview(run.manifest.prices if run.manifest else RunPrices())
    for record in run.records():
        overview.note(record)
    pictures = _inlined(run.assets) if inline else _named
    model = run.manifest.endpoint.model if run.manifest and run.manifest.endpoint else "unknown"
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with published(path) as partial, partial.open("wb") as file:
        file.write(msgspec.json.encode(log_header(run, report, overview, model=model))[:-1] + b',"samples":[')
        for record in run.records():
            sample = log_sample(record, pictures, model=model, prices=overview.prices)
            file.write((b",\n" if count else b"\n") + msgspec.json.encode(sample))
            count += 1
        file.write(b"\n]}\n")
    return count


@dataclass
class Overview:
    """What the head of a log says of its rollouts."""

    prices: RunPrices
    rollouts: int = 0
    tasks: dict[str, None] = field(default_factory=dict)
    repeats: int = 0
    dataset: str = ""
    first_at: float = 0.0
    last_at: float = 0.0

    def __post_init__(self) -> None:
        self.tally = SpendTally(self.prices)

    def note(self, record: RolloutRecord) -> None:
        started_at = record.finished_at - record.evidence.timing.total
        self.first_at = min(self.first_at or started_at, started_at)
        self.last_at = max(self.last_at, record.finished_at)
        self.rollouts += 1
        self.tasks[record.task.id.task_id] = None
        self.repeats = max(self.repeats, record.key.repeat + 1)
        self.dataset = record.task.id.taskset
        self.tally.note_record(record)


def log_header(run: SavedRun, report: MetricsReport, overview: Overview, *, model: str) -> JsonObject:
    """Everything but the samples."""
    manifest = run.manifest
    metrics = {"mean": report.reward.mean, **report.key_metrics}
    measured = {name: {"name": name, "value": value} for name, value in metrics.items() if value is not None}
    coverage, total = report.coverage, overview.tally.total()
    return {
        "version": LOG_VERSION,
        "status": "cancelled" if coverage.missing else "success",
        "eval": {
            "run_id": manifest.run_hash[:22] if manifest else "",
            "created": _time(overview.first_at),
            "task": report.environment,
            "task_id": run.files.rollouts.stem,
            "dataset": {
                "name": overview.dataset,
                "samples": len(overview.tasks),
                "sample_ids": list(overview.tasks),
                "shuffled": False,
            },
            "model": model,
            "config": {"epochs": max(overview.repeats, 1)},
            "packages": {"visual-agent-gym": manifest.versions.get("gym", "")} if manifest else {},
            "metadata": {"gym_run_hash": manifest.run_hash, "gym_identity": manifest.identity} if manifest else None,
        },
        "plan": {"name": "gym", "steps": []},
        "results": {
            "total_samples": coverage.expected,
            "completed_samples": coverage.finished,
            "scores": [
                {
                    "name": SCORE,
                    "scorer": report.environment,
                    "scored_samples": coverage.measured,
                    "unscored_samples": coverage.masked,
                    "metrics": measured,
                }
            ],
        },
        "stats": {
            "started_at": _time(overview.first_at),
            "completed_at": _time(overview.last_at),
            "model_usage": {model: _usage(total.policy, total.policy_cost)},
        },
    }


def log_sample(record: RolloutRecord, pictures: Pictures, *, model: str, prices: RunPrices) -> JsonObject:
    """One rollout: what was asked, the whole conversation, the score with the judge's reason, or the error."""
    evidence, verification = record.evidence, record.verification
    spent = attempt_spend(evidence, verification.details)
    asked = log_messages(record.task.responses_create_params.items, pictures)
    played = log_messages(evidence.response.output, pictures) if evidence.response else []
    sample: JsonObject = {
        "id": record.task.id.task_id,
        "epoch": record.key.repeat + 1,
        "uuid": str(evidence.episode_id),
        "input": asked,
        "target": str(record.task.task_data.get("expected_answer", "")),
        "messages": [*asked, *played],
        "output": _output(record, played, model),
        "metadata": {"task": record.task.task_data, "grader": verification.details, "attempts": record.attempts},
        "model_usage": {model: _usage(spent.policy, prices.policy.cost_of(spent.policy) if prices.policy else None)},
        "started_at": _time(record.finished_at - spent.total_s),
        "completed_at": _time(record.finished_at),
        "total_time": spent.total_s,
        "working_time": spent.total_s,
    }
    if verification.reward is None:
        failure = verification.failure
        what = f"{failure.kind}: {failure.reason}" if failure else "masked"
        return sample | {"error": {"message": what, "traceback": "", "traceback_ansi": ""}, "scores": {}}
    reason = verification.details.get("judge_reason")
    score = {
        "value": verification.reward,
        "answer": answer_of(record),
        "explanation": reason if isinstance(reason, str) else None,
        "metadata": {
            "failure": verification.failure.kind.value if verification.failure else None,
            "components": verification.reward_components,
            "shaping": verification.shaping,
        },
    }
    return sample | {"scores": {SCORE: score}}


def log_messages(items: Sequence[OutputItem], pictures: Pictures) -> list[JsonObject]:
    """A conversation's messages; what an assistant thought, said and called in one turn is one."""
    messages: list[JsonObject] = []
    names: dict[str, str] = {}
    for item in items:
        if isinstance(item, InputMessage):
            role = "system" if item.role == "developer" else item.role
            messages.append({"role": role, "content": _parts(item.parts, pictures)})
        elif isinstance(item, FunctionCallOutput):
            parts = [InputText(text=item.output)] if isinstance(item.output, str) else item.output
            content = _parts(parts, pictures)
            messages.append(
                {
                    "role": "tool",
                    "content": content,
                    "tool_call_id": item.call_id,
                    "function": names.get(item.call_id, ""),
                }
            )
        else:
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": [], "tool_calls": []})
            _add_to_turn(messages[-1], item)
            if isinstance(item, FunctionCall):
                names[item.call_id] = item.name
    return messages


def _add_to_turn(message: JsonObject, item: OutputMessage | ReasoningItem | FunctionCall) -> None:
    if isinstance(item, OutputMessage):
        message["content"].append({"type": "text", "text": item.text})
    elif isinstance(item, ReasoningItem):
        thought = "".join(part.text for part in item.content)
        message["content"].append({"type": "reasoning", "reasoning": thought})
    else:
        call = {"id": item.call_id, "function": item.name, "arguments": _arguments(item.arguments), "type": "function"}
        message["tool_calls"].append(call)


def _arguments(text: str) -> JsonObject:
    """An object, whatever the model wrote."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"text": text}


def _parts(parts: Sequence[InputPart], pictures: Pictures) -> list[JsonObject]:
    return [
        {"type": "text", "text": part.text} if isinstance(part, InputText) else pictures(part.image_url)
        for part in parts
    ]


def _named(url: str) -> JsonObject:
    return {"type": "text", "text": f"[picture {url}]"}


def _inlined(assets: AssetStore) -> Pictures:
    def picture(url: str) -> JsonObject:
        try:
            return {"type": "image", "image": assets.data_url(parse_reference(url)), "detail": "auto"}
        except (OSError, ValueError):  # not there, or damaged: the log says so where it stood
            return _named(url)

    return picture


def _output(record: RolloutRecord, played: Sequence[JsonObject], model: str) -> JsonObject:
    last = next((message for message in reversed(played) if message["role"] == "assistant"), None)
    if last is None:
        return {"model": model, "choices": []}
    failure = record.verification.failure
    stop = "stop" if failure is None else _STOPS.get(failure.kind, "unknown")
    text = "".join(part["text"] for part in last["content"] if part["type"] == "text")
    return {"model": model, "choices": [{"message": last, "stop_reason": stop}], "completion": text}


def _usage(tokens: TokenCount, cost: float | None) -> JsonObject:
    return {
        "input_tokens": tokens.input,
        "input_tokens_cache_read": tokens.cached_input,
        "output_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "total_cost": cost,
    }


def _time(unix_s: float) -> str:
    return datetime.datetime.fromtimestamp(unix_s, datetime.UTC).isoformat(timespec="seconds")
