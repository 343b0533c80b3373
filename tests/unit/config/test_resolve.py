import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym_core.config.blocks import check_blocks, check_config
from gym_core.config.compose import Composed
from gym_core.config.resolve import read_run_config, read_run_options
from gym_core.config.roots import ServerType
from gym_core.config.schema import ServerRef
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject
from tests.unit.config.house import AgentBlock, House, PolicyBlock, block_class, problems_of, provider_class

GRADER = "grader.resources_servers.grader"
PUZZLES = "puzzles.environment_servers.single_agent_turn_legacy"


@pytest.fixture
def furnished(house: House) -> House:
    house.furnish()
    return house


def problems(house: House, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        check_config(house.puzzles(*overrides), block_class=block_class, provider_class=provider_class)
    return problems_of(caught.value)


def test_a_sound_configuration_becomes_typed(furnished: House) -> None:
    config = read_run_config(furnished.puzzles("++limit=5", "++output_jsonl_fpath=x.jsonl", "++dry_run=true"))
    assert {name: server.type for name, server in config.servers.items()} == {
        "grader": ServerType.RESOURCES,
        "player": ServerType.AGENT,
        "policy_model": ServerType.MODEL,
    }
    environment = config.environments["puzzles"]
    assert environment.agent_server == ServerRef(type=ServerType.AGENT, name="player")
    assert environment.datasets[0].num_repeats == 1
    assert config.sandboxes == {"sandbox": {"local": {}}}
    assert config.parameters["policy_base_url"] == "http://127.0.0.1:8000/v1"
    assert config.launch.dry_run
    assert read_run_options(config).limit == 5


def test_the_blocks_are_read_by_their_owners(furnished: House) -> None:
    composed = furnished.puzzles()
    checked = check_config(composed, block_class=block_class, provider_class=provider_class)
    policy, player = checked.blocks["policy_model"], checked.blocks["player"]
    assert isinstance(policy, PolicyBlock)
    assert policy.api_key.get_secret_value() == "sk-very-secret"
    assert player == AgentBlock(timeout_s=900)
    assert checked.secrets == {"sk-very-secret"}
    assert check_blocks(checked.run, block_class, composed=composed) == checked.blocks


def test_all_mistakes_come_at_once(furnished: House) -> None:
    found = problems(
        furnished,
        "++player.agent_servers.player.timeout_s=0",
        "++grader.resources_servers.grader.sandbox_model_server.name=polcy_model",
        "++policy_model.model_servers.vllm_model.api_kye=x",
        "++limit=-1",
        "++polcy_temperature=1",
        "++needed=???",
        "++puzzles.environment_servers.single_agent_turn_legacy.agent_server.name=???",
    )
    assert "config: player.agent_servers.player.timeout_s: 0 is not > 0 (command line)" in found
    assert (
        "sandbox_model_server.name: no server 'polcy_model' of type 'model_servers'; did you mean 'policy_model'?"
        in found
    )
    assert "config: policy_model.model_servers.vllm_model.api_kye: unknown field; did you mean 'api_key'?" in found
    assert "config: limit: -1 is not > 0 (command line)" in found
    assert "config: polcy_temperature: no such option" in found
    assert "config: needed: missing" in found
    assert "agent_server.name: missing; give ++puzzles" in found


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("++grader.agent_servers.player={}", "one server type a block, but beside 'resources_servers'"),
        ("++grader.extra=1", "one server type a block, but beside 'resources_servers' stands 'extra'"),
        ("++policy_model.model_servers.other={}", "one implementation a block, but there are 'vllm_model', 'other'"),
        ("++new.model_servers=5", "config: new.model_servers: holds no implementation"),
        ("++new.model_servers.vllm_model=5", "is int, not a mapping of fields"),
        ("++new.model_servers.vlm_model={}", "no folder model_servers/vlm_model; did you mean 'vllm_model'?"),
        ("++new.model_server.vllm_model={}", "no server type 'model_server'; did you mean 'model_servers'?"),
        ("++new.environment_servers.single_turn={}", "no environment protocol 'single_turn'"),
        ("++new={some: thing}", "is neither a server nor a sandbox"),
        ("++a b.model_servers.vllm_model={}", "not an override"),
        ("++a@b.model_servers.vllm_model={}", "the name of a server takes letters"),
        (
            f"++{GRADER}.sandbox_provider=sandbx",
            "no sandbox block 'sandbx'; did you mean 'sandbox'?",
        ),
        ("++sandbox.docker_or_so={}", "one provider a sandbox block, but there are 'local', 'docker_or_so'"),
        (
            f"++{GRADER}.sandbox_model_server.type=agent_servers",
            "is of type 'model_servers', not 'agent_servers'",
        ),
        (f"++{GRADER}.sandbox_model_server.type=model_servrs", "did you mean 'model_servers'?"),
        (
            f"++{PUZZLES}.agent_server.type=model_servers",
            "cannot be the agent_server; it takes 'agent_servers'",
        ),
        (
            f"++{PUZZLES}.agent_servr={{}}",
            "unknown field; did you mean 'agent_server'?",
        ),
        ("++environment=puzzle", "no environment 'puzzle'; did you mean 'puzzles'?"),
        ("++num_sample_in_parallel=4", "did you mean 'num_samples_in_parallel'?"),
        ("++resume=perhaps", "config: resume: 'perhaps'"),
        ("++head_server.port=70000", "config: head_server.port: 70000 is not < 65536"),
        ("++head_server.prot=1", "unknown field; did you mean 'port'?"),
        ("++responses_create_params.temprature=1", "unknown field; did you mean 'temperature'?"),
        ("++policy_model.model_servers.vllm_model.base_url=true", "is a number or a truth value, not text"),
        ("++policy_model.model_servers.vllm_model.headers=[1]", "a list: input should be a valid dictionary"),
    ],
)
def test_each_mistake_has_its_own_message(furnished: House, override: str, message: str) -> None:
    assert message in problems(furnished, override)


def test_an_implementation_set_to_null_makes_room_for_another(furnished: House) -> None:
    (furnished.folder / "model_servers/other").mkdir()
    composed = furnished.puzzles("++policy_model.model_servers.other={}", "policy_model.model_servers.vllm_model=null")
    assert read_run_config(composed).servers["policy_model"].implementation == "other"


def test_a_block_of_an_included_file_that_is_set_to_null_is_gone(furnished: House) -> None:
    furnished.write(
        "mine.yaml",
        """
        config_paths: [benchmarks/puzzles/config.yaml, model_servers/vllm_model/configs/vllm_model.yaml]
        puzzles: null
        mine:
          environment_servers:
            single_agent_turn_legacy:
              resources_server: {type: resources_servers, name: grader}
              agent_server: {type: agent_servers, name: player}
        """,
    )
    words = ("++policy_base_url=http://h/v1", "++policy_api_key=k")
    assert list(read_run_config(furnished.compose(*words, files=("mine.yaml",))).environments) == ["mine"]
    assert list(read_run_config(furnished.puzzles("puzzles=null")).environments) == []
    assert "no server 'player'" in problems(furnished, "++player=null")
    assert "no such option" in problems(furnished, "++puzzle=null"), "a null that deletes nothing is a mistake"


def test_no_problem_shows_a_secret(furnished: House) -> None:
    found = problems(
        furnished,
        "policy_api_key=[sk-listed]",
        "++policy_model.model_servers.vllm_model.headers={a: sk-header, b: 5}",
        "++player.agent_servers.player.timeout_s=sk-header",
    )
    assert "sk-" not in found


def test_a_value_that_env_yaml_holds_for_other_configs_is_no_mistake(furnished: House) -> None:
    furnished.write("env.yaml", "hub_login: someone\n")
    assert read_run_config(furnished.puzzles()).parameters["hub_login"] == "someone"
    furnished.write("env.yaml", "num_repeat: 4\n")
    mistyped = (
        "config: num_repeat: no such option, and no ${num_repeat} uses it; did you mean 'num_repeats'? (env.yaml:1)"
    )
    assert mistyped in problems(furnished)


def test_code_that_cannot_be_loaded_is_a_problem_not_a_crash(furnished: House) -> None:
    def broken(_: object) -> type[AgentBlock]:
        raise ImportError("no module named 'cv3'")

    with pytest.raises(ConfigError, match="its code cannot be loaded: ImportError: no module named 'cv3'"):
        check_config(furnished.puzzles(), block_class=broken, provider_class=provider_class)


def test_an_evaluation_needs_an_output_file(furnished: House) -> None:
    with pytest.raises(ConfigError, match="output_jsonl_fpath: missing; give --output PATH"):
        read_run_options(read_run_config(furnished.puzzles()))


def test_a_key_of_digits_alone_is_text(furnished: House) -> None:
    composed = furnished.puzzles(
        "policy_api_key=12345678", "++policy_model.model_servers.vllm_model.headers={a: 87654321}"
    )
    checked = check_config(composed, block_class=block_class, provider_class=provider_class)
    policy = checked.blocks["policy_model"]
    assert isinstance(policy, PolicyBlock)
    assert policy.api_key.get_secret_value() == "12345678"
    assert policy.headers["a"].get_secret_value() == "87654321"
    assert checked.secrets == {"12345678", "87654321"}


def test_a_sandbox_block_may_label_its_sandboxes(furnished: House) -> None:
    composed = furnished.puzzles("++sandbox.default_metadata={team: vision}")
    assert read_run_config(composed).sandboxes == {"sandbox": {"local": {}, "default_metadata": {"team": "vision"}}}


WORDS = st.sampled_from(
    [*ServerType, "responses_api_models", "vllm_model", "grader", "player", "policy_model", "type", "name", "sandbox",
     "local", "sandbox_provider", "agent_server", "resources_server", "datasets", "single_agent_turn", "limit",
     "environment", "split", "head_server", "port", "responses_create_params", "dry_run", "api_key", "config", "x y"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=12
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=st.dictionaries(WORDS, TREES, max_size=5))
def test_any_configuration_is_right_or_a_config_error(furnished: House, values: JsonObject) -> None:
    composed = Composed(values=values, origin={}, files=(), roots=furnished.roots)
    with contextlib.suppress(ConfigError):
        check_config(composed, block_class=block_class, provider_class=provider_class)
