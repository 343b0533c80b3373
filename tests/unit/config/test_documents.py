import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_core.config.documents import parse_document, parse_value
from gym_core.errors import ConfigError

BOMB = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]\n" for n in range(9))
MERGE_BOMB = "".join(
    f"a{n}: &a{n} {{{'<<: [' + ', '.join([f'*a{n - 1}'] * 9) + ']' if n else 'x: 1'}}}\n" for n in range(9)
)
"""Nine levels of nine aliases: a few lines that stand for some forty million values."""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-3", -3),
        ("0", 0),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("5.", 5.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", ""),
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("0123", "0123"),
        ("1_000", "1_000"),
        ("http://host:8000/v1", "http://host:8000/v1"),
        ("a: b", "a: b"),
        ("key #1", "key #1"),
        ("#x", "#x"),
        ("&x", "&x"),
        ("&x 5", "&x 5"),
        ("*x", "*x"),
        ("!x", "!x"),
        ("@x", "@x"),
        ("- a", "- a"),
        ("'5'", "5"),
        ('"a\\tb"', "a\tb"),
        ("[1, two]", [1, "two"]),
        ("{cpu: 2, memory_mib: 8192}", {"cpu": 2, "memory_mib": 8192}),
        ("${oc.env:X,null}", "${oc.env:X,null}"),
    ],
)
def test_a_value_on_the_command_line_is_one_scalar_or_flow_yaml(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize("text", ["[1", "{a: ", "'x", '"x', "{a: 1, a: 2}"])
def test_a_value_whose_brackets_do_not_close_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="do not close"):
        parse_value(text)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    try:
        value = parse_value(text)
    except ValueError:
        return
    if isinstance(value, str) and text.strip()[:1] not in tuple("[{\"'"):
        assert value == text.strip()


def test_lines_are_known_for_every_key() -> None:
    document = parse_document("a:\n  b: 1\n  c:\n    d: [1]\n", "x.yaml")
    assert document.lines == {"a": 1, "a.b": 2, "a.c": 3, "a.c.d": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "x.yaml:3: the key 'a' is written twice"),
        ("a:\n  1: x\n", "x.yaml:2: the key '1' is not text"),
        ("- a\n", "holds a list"),
        ("a: [\n", "not valid YAML"),
        ("a: !!python/object:os.system {}\n", "not valid YAML"),
        ("a: &x\n  b: *x\n", "x.yaml:1: an alias stands inside its own anchor"),
        (BOMB, "values, each counted as often as an alias repeats it"),
        (MERGE_BOMB, "values, each counted as often as an alias repeats it"),
        ("a: " + "[" * 5000 + "]" * 5000, "x.yaml: lists and mappings nested too deeply"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_document(text, "x.yaml")


def test_an_empty_file_is_an_empty_mapping() -> None:
    assert parse_document("# nothing\n", "x.yaml").values == {}
