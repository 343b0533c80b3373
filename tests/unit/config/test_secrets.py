import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gym_core.config.secrets import MASK, literal_secret_warnings, redact, redact_text, reveal, secret_values
from gym_core.types.wire import JsonObject, Wire
from tests.unit.config.house import House, PolicyBlock


class Nested(Wire):
    policy: PolicyBlock | None = None
    several: list[PolicyBlock] = []


def test_secrets_are_found_by_type_at_any_depth_even_in_a_wrong_block() -> None:
    block = {
        "policy": {"api_key": "one", "headers": {"a": "two"}, "base_url": "open", "timeout_s": -1},
        "several": [{"api_key": 345}, "not a block"],
        "unknown": "open",
    }
    assert secret_values(Nested, block) == {"one", "two", "345"}


def test_taint_masks_every_copy_and_leaves_the_rest() -> None:
    values = {
        "policy_api_key": "sk-12345",
        "max_output_tokens": 1024,
        "answer_key": "B",
        "url": "http://u:sk-12345@host",
        "list": ["sk-12345", {"x": "sk-12345"}],
        "flag": True,
        "nothing": None,
    }
    assert redact(values, frozenset({"sk-12345"})) == {
        "policy_api_key": MASK,
        "max_output_tokens": 1024,
        "answer_key": "B",
        "url": MASK,
        "list": [MASK, {"x": MASK}],
        "flag": True,
        "nothing": None,
    }


def test_a_short_secret_masks_whole_values_only() -> None:
    assert redact({"key": "x", "name": "box"}, frozenset({"x"})) == {"key": MASK, "name": "box"}


def test_encoded_forms_are_masked_in_text() -> None:
    secret = 'a"b/c d'
    text = f"{secret} {json.dumps(secret)} a%22b%2Fc%20d"
    assert redact_text(text, frozenset({secret})) == f'{MASK} "{MASK}" {MASK}'


@pytest.mark.parametrize(
    "written",
    ['sk-a\\/b+\\"c\\"&d', 'sk-a/b+\\\\\\"c\\\\\\"&d', "sk-a%2Fb%2B%22c%22%26d", "sk-a/b+&quot;c&quot;&amp;d"],
    ids=["JSON with its slashes escaped", "JSON in JSON", "a URL", "HTML"],
)
def test_what_endpoints_make_of_a_key_is_masked(written: str) -> None:
    assert redact_text(f"bad key {written}", frozenset({'sk-a/b+"c"&d'})) == f"bad key {MASK}"


SECRET = st.text(alphabet='abcdefghij"\\/é ', min_size=6, max_size=24).filter(lambda text: text.strip() == text)
LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=8)


@given(
    secrets=st.frozensets(SECRET, min_size=1, max_size=3),
    before=st.text(max_size=4),
    others=st.recursive(
        LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
)
def test_no_secret_survives_in_what_is_dumped(secrets: frozenset[str], before: str, others: object) -> None:
    values: JsonObject = {"others": others}
    for index, secret in enumerate(sorted(secrets)):
        values[f"k{index}"] = {"whole": secret, "inside": [before + secret + before], secret: 1}
    dumped = json.dumps(redact(values, secrets))
    for secret in secrets:
        assert secret not in dumped
        assert json.dumps(secret)[1:-1] not in dumped


def test_a_revealed_block_reads_back_as_itself() -> None:
    block = Nested(policy=PolicyBlock(base_url="u", api_key=SecretStr("k"), headers={"a": SecretStr("b")}))
    revealed = reveal(block)
    assert revealed["policy"]["api_key"] == "k"
    assert Nested.model_validate(json.loads(json.dumps(revealed))) == block


def test_a_literal_key_on_the_command_line_works_but_is_warned_about_once(house: House) -> None:
    house.furnish()
    composed = house.puzzles("++policy_model.model_servers.vllm_model.headers.auth=sk-header")
    secrets = frozenset({"sk-very-secret", "sk-header"})
    first, second = literal_secret_warnings(composed.values, composed.origin, secrets)
    assert first.startswith("warning: policy_api_key stands in the process list")
    assert "'++policy_api_key=${oc.env:POLICY_API_KEY}'" in first
    assert second.startswith("warning: policy_model.model_servers.vllm_model.headers.auth stands")
    assert "sk-" not in first + second


@pytest.mark.parametrize("word", ["EMPTY", "none", "dummy", "1234567"])
def test_what_stands_in_for_a_key_is_not_warned_about(house: House, word: str) -> None:
    house.furnish()
    composed = house.puzzles(f"policy_api_key={word}")
    assert literal_secret_warnings(composed.values, composed.origin, frozenset({word})) == []


def test_a_key_that_came_from_the_environment_is_not_warned_about(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_KEY", "sk-from-environment")
    house.furnish()
    composed = house.puzzles("policy_api_key=${oc.env:HOUSE_KEY}")
    assert literal_secret_warnings(composed.values, composed.origin, frozenset({"sk-from-environment"})) == []
