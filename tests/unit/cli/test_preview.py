"""What `gym eval run --dry-run` says: what would run, what an output holds already, and what the rest takes."""

import json
from pathlib import Path

import pytest

from gym_core.cli.evaluate import dry_run_lines, plan_evaluation
from gym_core.cli.preview import estimate_lines, prices_text
from gym_core.cli.selection import Selection
from gym_core.cli.summary import metrics_lines
from gym_core.cli.terminal import money
from gym_core.errors import ConfigError, FailureKind
from gym_core.launch.identity import environment_identity, identity_hash
from gym_core.rollout.output import OutputFiles, RunManifest, RunOutput
from gym_core.rollout.plan import plan_rollouts
from gym_core.statistics.report import aggregate
from gym_core.types.cost import Forecast, RestEstimate, Spend, TokenCount, TokenPrices
from gym_core.types.flat_row import flat_from_task
from gym_core.types.rollout import RolloutRecord
from gym_core.types.session import CaptureSummary
from gym_core.types.verification import Failure, Verification
from tests.fakes.rollouts import make_record, make_task

TASKS = [make_task(n) for n in range(5)]
DATA = "++visual_puzzles_opencode.environment_servers.single_agent_turn_legacy.datasets.0.jsonl_fpath"
PRICES = "++policy_model.model_servers.vllm_model.prices={input: 1000000, output: 0, currency: EUR}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISUAL_CODING_OPENCODE_SANDBOX_IMAGE", raising=False)
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(flat_from_task(task)) + "\n" for task in TASKS))
    return tmp_path


def selection(folder: Path, *overrides: str) -> Selection:
    given = (
        f"{DATA}={folder / 'tasks.jsonl'}", "++policy_base_url=http://eyes/v1", "++policy_api_key=sk-key",
        "++policy_model_name=Eye-8B", f"++output_jsonl_fpath={folder / 'out.jsonl'}",
    )  # fmt: skip
    return Selection("visual_puzzles_opencode", None, "vllm_model", (), (), (*given, *overrides))


def said(folder: Path, *overrides: str) -> str:
    return "\n".join(dry_run_lines(plan_evaluation(selection(folder, *overrides))))


async def write_output(folder: Path, kinds: list[FailureKind | None]) -> None:
    """As a run of the same configuration leaves it: a rollout for each, graded (None) or masked."""
    checked = selection(folder).check()
    identity = environment_identity(checked, checked.run.environments["visual_puzzles_opencode"])
    manifest = RunManifest(run_hash=identity_hash(identity), identity=identity)
    output = RunOutput(OutputFiles(folder / "out.jsonl"), manifest, resume=True, retry_masked=False)
    requests = plan_rollouts(TASKS, repeats=1, environment="visual_puzzles_opencode")
    for request, kind in zip(requests, kinds, strict=False):
        await output.append(played(make_record(request), kind))
    output.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def played(record: RolloutRecord, kind: FailureKind | None) -> RolloutRecord:
    capture = CaptureSummary(session_id="s", calls=1, input_tokens=100, output_tokens=10)
    record = record.model_copy(update={"evidence": record.evidence.model_copy(update={"capture": capture})})
    if kind is None:
        return record
    return record.model_copy(update={"verification": Verification.failed(Failure(kind=kind, reason="fake"))})


def test_it_says_what_would_run_and_leaves_nothing(folder: Path) -> None:
    text = said(folder, "++num_repeats=3", "++limit=4", "++num_samples_in_parallel=2", PRICES)
    for line in (
        "dry run: the configuration is right; this would run",
        "  environment  visual_puzzles_opencode",
        f"  data         visual_puzzles, from {folder / 'tasks.jsonl'}",
        "  rollouts     4 tasks x 3 repeats = 12, 2 in flight",
        "  policy       policy_model (vllm_model): Eye-8B at http://eyes/v1; 1e+06 in, 0 out EUR a million tokens",
        "  judge        no model: graded by rule",
        "  sandboxes    local, 2 CPU, 8192 MiB, the policy server alone reachable",
        f"  output       {folder / 'out.jsonl'}: nothing there yet, 12 to play",
        "  servers      opencode_agent (agent_servers/opencode_agent), policy_model (model_servers/vllm_model), "
        "visual_coding_opencode (resources_servers/visual_coding_opencode)",
    ):
        assert line in text.splitlines()
    assert "sk-key" not in text
    assert sorted(path.name for path in folder.iterdir()) == ["tasks.jsonl"]


def test_only_servers_that_would_be_started_are_named(folder: Path) -> None:
    (folder / "spare.yaml").write_text("spare: {model_servers: {vllm_model: {base_url: http://h/v1, model: m}}}")
    text = said(folder, f"++config_paths=[{folder / 'spare.yaml'}]")
    assert "spare" not in text


def test_data_that_is_not_prepared_is_said_and_not_made(folder: Path) -> None:
    (folder / "tasks.jsonl").unlink()
    text = said(folder)
    assert f"not prepared yet; a run would make {folder / 'tasks.jsonl'}" in text
    assert "1 repeat of each task, 8 in flight" in text
    assert "nothing there yet, all of them to play" in text
    assert list(folder.iterdir()) == []


async def test_what_is_there_is_kept_what_may_be_mended_is_tried_again_and_the_rest_is_estimated(folder: Path) -> None:
    await write_output(folder, [None, None, FailureKind.SANDBOX_LOST, FailureKind.JUDGE_FAILED])
    before = contents(folder)
    text = said(folder, PRICES)
    assert "resumes, 3 kept, 2 to play (of them 1 masked before and tried again)" in text
    assert "the 2 rollouts left, if like the 4 rollouts that were played" in text
    assert "tokens in   200  [200, 200]" in text
    assert "200.00 EUR  [200.00 EUR, 200.00 EUR]" in text
    assert contents(folder) == before
    assert "4 kept, 1 to play" in said(folder, "++retry_masked=false")


async def test_an_output_that_cannot_be_resumed_is_refused_here_already(folder: Path) -> None:
    await write_output(folder, [None])
    with pytest.raises(ConfigError, match="already holds rollouts"):
        said(folder, "++resume=false")
    with pytest.raises(ConfigError, match=r"was written by run .*timeout_s: 1800.0 -> 900.0"):
        said(folder, "++opencode_agent.agent_servers.opencode_agent.timeout_s=900")


def test_an_output_of_somebody_else_is_refused_here_already(folder: Path) -> None:
    (folder / "out.jsonl").write_text('{"name": "x"}\n')
    before = contents(folder)
    with pytest.raises(ConfigError, match=r"out.jsonl.* cannot be resumed: .*the line is no rollout of a run"):
        said(folder)
    assert (contents(folder), (folder / "out_assets").exists()) == (before, False)


async def test_an_output_whose_rows_are_all_there_has_nothing_left(folder: Path) -> None:
    await write_output(folder, [None] * 5)
    text = said(folder)
    assert "resumes, 5 kept, 0 to play" in text
    assert "left, if like" not in text


def test_names_from_outside_are_one_line_without_control_characters(folder: Path) -> None:
    text = said(folder, '++policy_model_name="a\\e[31m\\nb"')
    assert "a[31m b at http://eyes/v1" in text
    assert "\x1b" not in text


def forecast(mean: float, half: float) -> Forecast:
    return Forecast(mean=mean, low_95=mean - half, high_95=mean + half)


ESTIMATE = RestEstimate(
    rollouts=19,
    seen=5,
    wall_s=forecast(370, 128),
    sandbox_s=forecast(2960, 0),
    input_tokens=forecast(1_234_567.4, 0),
    output_tokens=forecast(0, 0),
    cost=forecast(0.5, 0.25),
    currency="USD",
)


def test_an_estimate_has_its_range() -> None:
    assert estimate_lines(ESTIMATE, parallel=8) == [
        "the 19 rollouts left, if like the 5 rollouts that were played  [95 % of the time within]",
        "  time        6 min 10 s  [4 min 02 s, 8 min 18 s]     8 in flight",
        "  tokens in   1,234,567  [1,234,567, 1,234,567]        policy and judge",
        "  tokens out  0  [0, 0]",
        "  sandboxes   49 min 20 s  [49 min 20 s, 49 min 20 s]  all together",
        "  cost        0.5 USD  [0.25 USD, 0.75 USD]",
    ]


def test_an_estimate_from_one_rollout_has_none_and_an_unknown_cost_is_no_number() -> None:
    one = {"rollouts": 1, "seen": 1, "cost": None, "currency": None}
    bare = {name: Forecast(mean=1) for name in ("wall_s", "sandbox_s", "input_tokens", "output_tokens")}
    lines = estimate_lines(ESTIMATE.model_copy(update=one | bare), parallel=8)
    assert lines[0] == "the rollout left, if like the 1 rollout that was played; one says nothing of the spread"
    assert lines[1] == "  time        1 s                                                       1 in flight"
    assert lines[-1] == "  cost        not known: no prices, or an endpoint that does not count"


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0.00 USD"), (0.01234, "0.0123 USD"), (1234.5, "1,234.50 USD"), (0.000004, "4e-06 USD")]
)
def test_money_has_the_digits_that_it_needs(amount: float, text: str) -> None:
    assert money(amount, "USD") == text


def test_prices_are_of_a_million_tokens() -> None:
    prices = TokenPrices(input=0.4, cached_input=0.1, output=1.6, currency="USD")
    assert prices_text(prices) == "0.4 in, 0.1 cached, 1.6 out USD a million tokens"
    assert prices_text(None) == "no prices, so no cost"


def test_a_summary_says_what_was_spent_and_a_cost_only_where_it_is_known() -> None:
    policy = TokenCount(input=18_884, cached_input=100, output=2542, calls=9)
    spend = Spend(attempts=3, policy=policy, wall_s=8, sandbox_s=13, policy_cost=0.5, cost=0.5, currency="USD")
    report = aggregate([], environment="e", expected=0)
    assert metrics_lines(report.model_copy(update={"spend": spend}))[-3:] == [
        "spent",
        "  policy  18,884 tokens in, 100 of them cached, 2,542 out, 9 calls  0.5 USD",
        "  all     8 s of playing, 13 s of sandboxes, 3 attempts             0.5 USD",
    ]
    judge = TokenCount(input=3, calls=2, uncounted_calls=2)
    unknown = spend.model_copy(update={"judge": judge, "cost": None, "sandbox_s": 0.0})
    lines = metrics_lines(report.model_copy(update={"spend": unknown}))
    assert lines[-2].split("  ")[-1] == "cost not known"
    assert "2 calls, 2 calls not counted" in lines[-2]
    assert lines[-1].endswith("cost not known")
