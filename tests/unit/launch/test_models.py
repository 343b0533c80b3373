"""Which models play and judge, and what they are said to charge."""

from pathlib import Path

import pytest

from gym_core.cli.selection import Selection
from gym_core.config.blocks import CheckedConfig
from gym_core.errors import ConfigError
from gym_core.launch.identity import environment_identity, identity_hash
from gym_core.launch.models import environment_prices, judge_server, policy_server
from gym_core.types.cost import RunPrices, TokenPrices

POLICY = "++policy_model.model_servers.vllm_model.prices="
JUDGE = "++judge_model.model_servers.openai_model.prices="
RULE = "++visual_coding_opencode.resources_servers.visual_coding_opencode"
ENDPOINT = ("++policy_base_url=http://h/v1", "++policy_api_key=EMPTY", "++policy_model_name=m")


@pytest.fixture(autouse=True)
def _nothing_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISUAL_CODING_OPENCODE_SANDBOX_IMAGE", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def checked(*overrides: str) -> CheckedConfig:
    return Selection("babyvision_opencode", None, "vllm_model", (), (), (*ENDPOINT, *overrides)).check()


def prices(*overrides: str) -> RunPrices:
    found = checked(*overrides)
    (environment,) = found.run.environments.values()
    return environment_prices(found, environment)


def test_the_policy_is_the_agents_model_and_the_judge_the_graders() -> None:
    found = checked()
    (environment,) = found.run.environments.values()
    assert (policy_server(found, environment), judge_server(found, environment)) == ("policy_model", "judge_model")


def test_a_rule_is_no_model() -> None:
    found = checked(f"{RULE}.judge=matcher", f"{RULE}.judge_model_server=null")
    (environment,) = found.run.environments.values()
    assert judge_server(found, environment) is None


def test_prices_are_those_of_the_blocks_and_none_without() -> None:
    assert prices() == RunPrices()
    found = prices(POLICY + "{input: 2, cached_input: 0.5, output: 8, currency: EUR}")
    assert found == RunPrices(policy=TokenPrices(input=2, cached_input=0.5, output=8, currency="EUR"))


def test_two_currencies_are_refused_with_both_named() -> None:
    with pytest.raises(ConfigError) as caught:
        checked(POLICY + "{input: 2, output: 8, currency: EUR}", JUDGE + "{input: 0.15, output: 0.6, currency: USD}")
    (problem,) = caught.value.problems
    assert problem.startswith(
        "config: judge_model.model_servers.openai_model.prices.currency: is 'USD', but that of 'policy_model' is 'EUR'"
    )


def test_a_run_with_other_prices_is_the_same_run() -> None:
    found = [checked(), checked(POLICY + "{input: 2, output: 8, currency: EUR}")]
    first, second = (identity_hash(environment_identity(c, *c.run.environments.values())) for c in found)
    assert first == second
