"""What a run's files tell of its attempts: rows, and those that broke."""

from pathlib import Path

import pytest

from gym_core.errors import ConfigError
from gym_core.rollout.output import OutputFiles, RunManifest, RunOutput
from gym_core.rollout.plan import plan_rollouts
from gym_core.rollout.sink import JsonlSink
from gym_core.rollout.spending import CountingSink, note_failures, note_files
from gym_core.statistics.spend import SpendTally
from gym_core.types.rollout import EpisodeEvidence, Failed
from gym_core.types.session import CaptureSummary
from tests.fakes.rollouts import failed, make_record, make_task

(REQUEST,) = plan_rollouts([make_task(0)], repeats=1, environment="e")


def with_tokens(evidence: EpisodeEvidence, tokens: int) -> EpisodeEvidence:
    capture = CaptureSummary(session_id="s", calls=1, input_tokens=tokens)
    return evidence.model_copy(update={"capture": capture})


def broken(attempt: int, tokens: int) -> Failed:
    result = failed(REQUEST, attempt)
    return result.model_copy(update={"evidence": with_tokens(result.evidence, tokens)})


async def test_what_is_counted_while_a_run_goes_is_what_its_files_tell_later(tmp_path: Path) -> None:
    files = OutputFiles(tmp_path / "x.jsonl")
    output = RunOutput(files, RunManifest(run_hash="h", identity={}), resume=True, retry_masked=False)
    live = SpendTally()
    sink = CountingSink(output, live)
    await sink.append_failure(REQUEST, broken(0, 100))
    await sink.append_failure(REQUEST, broken(1, 20))
    record = make_record(REQUEST, reward=None)  # of the second attempt, after which nothing was left to try
    evidence = with_tokens(record.evidence, 20)
    episode = evidence.episode_id.model_copy(update={"attempt": 1})
    record = record.model_copy(update={"evidence": evidence.model_copy(update={"episode_id": episode})})
    await sink.append(record)
    output.close()

    later = SpendTally()
    note_files(later, files, [record])
    for tally in (live, later):
        spend = tally.total()
        assert (spend.attempts, spend.policy.input, spend.policy.calls) == (2, 120, 2)
    assert sink.run_hash == "h"


def test_a_line_that_is_no_failed_attempt_is_named(tmp_path: Path) -> None:
    files = OutputFiles(tmp_path / "x.jsonl")
    with JsonlSink(files.failures) as sink:
        sink.append({"task_hash": "h", "repeat": 0, "evidence": {}, "failed_at": 1.0})
    with pytest.raises(ConfigError, match=r"x_failures.jsonl:1: no failed attempt of a run"):
        note_failures(SpendTally(), files)
