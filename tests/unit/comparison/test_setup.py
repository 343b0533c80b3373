"""In what two runs differ, told by what it is about."""

from dataclasses import replace
from pathlib import Path

import pytest

from gym_core.comparison.compare import compare_runs
from gym_core.comparison.scored_run import ScoredRun, read_scored_run
from gym_core.rollout.output import RunManifest
from gym_core.types.comparison import Topic
from gym_core.types.session import AgentReport
from gym_core.types.wire import JsonObject
from tests.fakes.made_run import MadeRun
from tests.fakes.made_runs import made_rollout, write_small_run


def identity(name: str = "", **changes: object) -> JsonObject:
    """As a run of `visual_coding_opencode` has it, its servers' names with an ending."""
    fields: JsonObject = {
        "judge": "llm",
        "judge_model": "gpt-4o-mini",
        "image": "puzzles:1",
        "timeout_s": 1800.0,
        "temperature": 1.0,
        "gym": "0.1.0",
        "toolkit": "toolkit-1",
        "policy": "tiny",
        "other": 1,
    } | changes
    return {
        "gym": fields["gym"],
        "sampling": {"temperature": fields["temperature"]},
        "sandboxes": {"sandbox": {"local": {"toolkit": fields["toolkit"]}}},
        "servers": {
            f"agent{name}": {
                "implementation": "opencode_agent",
                "model_server": {"type": "model_servers", "name": f"policy{name}"},
                "timeout_s": fields["timeout_s"],
            },
            f"policy{name}": {"implementation": "vllm_model", "model": fields["policy"]},
            f"grader{name}": {
                "implementation": "visual_coding_opencode",
                "judge": fields["judge"],
                "judge_model_server": {"type": "model_servers", "name": f"judge{name}"},
                "sandbox_config": {"image": fields["image"]},
            },
            f"judge{name}": {"implementation": "openai_model", "model": fields["judge_model"]},
            "other": {"value": fields["other"]},
        },
    }


@pytest.fixture
def run(tmp_path: Path) -> ScoredRun:
    return read_scored_run(write_small_run(tmp_path, n_tasks=2).path)


def told(run: ScoredRun, a: JsonObject, b: JsonObject) -> list[tuple[Topic, str]]:
    def with_identity(found: JsonObject) -> ScoredRun:
        manifest = RunManifest(run_hash="h", identity=found, endpoint=run.manifest.endpoint if run.manifest else None)
        return replace(run, manifest=manifest)

    return [(d.topic, d.what) for d in compare_runs(with_identity(a), with_identity(b)).setup]


@pytest.mark.parametrize(
    ("changes", "topic", "what"),
    [
        ({"judge": "matcher"}, Topic.JUDGE, "resources.judge: llm -> matcher"),
        ({"judge_model": "gpt-5"}, Topic.JUDGE, "judge.model: gpt-4o-mini -> gpt-5"),
        ({"image": "puzzles:2"}, Topic.SANDBOX, "resources.sandbox_config.image: puzzles:1 -> puzzles:2"),
        ({"toolkit": "toolkit-2"}, Topic.SANDBOX, "sandboxes.sandbox.local.toolkit: toolkit-1 -> toolkit-2"),
        ({"timeout_s": 60.0}, Topic.HARNESS, "agent.timeout_s: 1800.0 -> 60.0"),
        ({"temperature": 0.0}, Topic.SAMPLING, "sampling.temperature: 1.0 -> 0.0"),
        ({"gym": "0.2.0"}, Topic.GYM, "version.gym: 0.1.0 -> 0.2.0"),
        ({"policy": "large"}, Topic.POLICY, "policy.model: tiny -> large"),
        ({"other": 2}, Topic.SERVERS, "other.value: 1 -> 2"),
    ],
)
def test_each_part_of_what_ran_has_its_topic(changes: JsonObject, topic: Topic, what: str, run: ScoredRun) -> None:
    assert told(run, identity(), identity(**changes)) == [(topic, what)]


def test_servers_are_compared_by_what_they_do_not_by_their_names(run: ScoredRun) -> None:
    assert told(run, identity(), identity("_2")) == []


def test_a_field_that_one_version_has_and_that_holds_nothing_is_no_difference(run: ScoredRun) -> None:
    a, b = identity(), identity()
    b["servers"]["grader"]["sandbox_config"] |= {"mounts": [], "labels": {"of": None}, "user": None}
    assert told(run, a, b) == []
    b["servers"]["grader"]["sandbox_config"]["max_sandboxes"] = 0
    assert told(run, a, b) == [(Topic.SANDBOX, "resources.sandbox_config.max_sandboxes: None -> 0")]


def test_a_topic_shows_its_first_differences_and_counts_the_rest(run: ScoredRun) -> None:
    a, b = identity(), identity()
    b["servers"]["policy"] |= {f"field_{n}": n for n in range(7)}
    ((topic, what),) = told(run, a, b)
    assert topic is Topic.POLICY
    assert what.endswith("policy.field_3: None -> 3 and 3 more")


def test_what_identities_of_strangers_hold_is_no_error(run: ScoredRun) -> None:
    strange: JsonObject = {"servers": {"a": "text", "b": {"model_server": 3}, "c": {"sandbox_config": None}}, "gym": 7}
    assert told(run, {"servers": [1]}, strange) == [(Topic.GYM, "version.gym: None -> 7")]


def test_only_another_policy_is_no_warning(run: ScoredRun) -> None:
    assert run.manifest is not None
    endpoint = run.manifest.endpoint
    assert endpoint is not None
    other = run.manifest.model_copy(update={"endpoint": endpoint.model_copy(update={"model": "other"})})
    (difference,) = compare_runs(run, replace(run, manifest=other)).setup
    assert (difference.topic, difference.what, difference.is_warning) == (
        Topic.POLICY, "made-vl-7b in A, other in B", False,
    )  # fmt: skip


def test_datasets_are_compared_by_their_bytes_not_their_paths(run: ScoredRun) -> None:
    assert run.manifest is not None

    def on(path: str, sha256: str) -> ScoredRun:
        datasets = {"babyvision": {"path": path, "sha256": sha256}}
        return replace(run, manifest=run.manifest.model_copy(update={"datasets": datasets}))  # type: ignore[union-attr]

    assert compare_runs(on("here", "aa"), on("there", "aa")).setup == []
    (difference,) = compare_runs(on("here", "aa"), on("here", "bb")).setup
    assert (difference.topic, difference.what) == (Topic.DATA, "babyvision aa in A, babyvision bb in B")


def test_rows_tell_of_another_judge_prompt_and_another_opencode(tmp_path: Path) -> None:
    made = made_rollout(1)
    a, b = MadeRun(tmp_path, "a"), MadeRun(tmp_path, "b")
    a.write([replace(made, details={"judge_prompt_sha256": "a" * 64})])
    later = AgentReport(versions={"opencode": "1.18.0"})
    b.write([replace(made, details={"judge_prompt_sha256": "b" * 64}, agent=later)])
    setup = compare_runs(read_scored_run(a.path), read_scored_run(b.path)).setup
    assert [(d.topic, d.what) for d in setup] == [
        (Topic.JUDGE, "a-judge (prompt aaaaaaaa) in A, a-judge (prompt bbbbbbbb) in B"),
        (Topic.HARNESS, "opencode 1.17.11 in A, opencode 1.18.0 in B"),
    ]


def test_a_run_without_its_manifest_cannot_say_what_ran(run: ScoredRun) -> None:
    (difference,) = compare_runs(run, replace(run, manifest=None)).setup
    assert (difference.topic, difference.is_warning) == (Topic.MANIFEST, True)
    assert "no X_run.json" in difference.what
