import pytest

from gym_core.config.overrides import Override, OverrideKind, parse_override, parse_overrides
from gym_core.errors import ConfigError


@pytest.mark.parametrize(
    ("word", "override"),
    [
        ("++a.b=1", Override(OverrideKind.ADD_OR_REPLACE, ("a", "b"), 1)),
        ("+a=x", Override(OverrideKind.ADD, ("a",), "x")),
        ("a.b-c=", Override(OverrideKind.REPLACE, ("a", "b-c"), "")),
        ("a=b=c", Override(OverrideKind.REPLACE, ("a",), "b=c")),
        ("++m.responses_api_models.x.y=1", Override(OverrideKind.ADD_OR_REPLACE, ("m", "model_servers", "x", "y"), 1)),
    ],
)
def test_the_grammar(word: str, override: Override) -> None:
    assert parse_override(word) == override


@pytest.mark.parametrize("word", ["a", "++a", "=1", "++=1", "a..b=1", ".a=1", "a.=1", "+++a=1", "--a=1", "a b=1", ""])
def test_what_is_no_override_is_refused_with_the_grammar(word: str) -> None:
    with pytest.raises(ConfigError, match=r"write \+\+key=value"):
        parse_override(word)


def test_deleting_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match=r"deleting is not supported; set the key to null: a\.b=null"):
        parse_override("~a.b")


def test_all_malformed_words_are_reported_without_their_values() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["++ok=1", "+++bad=sk-secret", "++key=[sk-secret"])
    assert len(caught.value.problems) == 2
    assert "sk-secret" not in str(caught.value)
