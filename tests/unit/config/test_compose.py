from pathlib import Path

import pytest

from gym_core.config.compose import Composed
from gym_core.config.layers import Origin
from gym_core.errors import ConfigError
from tests.unit.config.house import House


def test_the_including_file_wins_and_a_later_sibling_wins_over_an_earlier_one(house: House) -> None:
    house.write("main.yaml", "config_paths: [one.yaml, two.yaml]\na: main\n")
    house.write("one.yaml", "config_paths: [deep.yaml]\na: one\nb: one\nc: one\n")
    house.write("two.yaml", "a: two\nb: two\n")
    house.write("deep.yaml", "c: deep\nd: deep\n")
    composed = house.compose()
    assert composed.values == {"a": "main", "b": "two", "c": "one", "d": "deep"}
    assert composed.origin["d"] == Origin("deep.yaml", 2)


def test_a_file_included_twice_counts_once_where_it_first_appears(house: House) -> None:
    house.write("main.yaml", "config_paths: [one.yaml, shared.yaml]\n")
    house.write("one.yaml", "config_paths: [shared.yaml]\na: one\n")
    house.write("shared.yaml", "a: shared\n")
    assert house.compose().values == {"a": "one"}


def test_mappings_merge_and_everything_else_replaces(house: House) -> None:
    house.write("main.yaml", "config_paths: [base.yaml]\na: {y: 2, z: null}\nlist: [3]\nempty: {}\n")
    house.write("base.yaml", "a: {x: 1, y: 1, z: {deep: 1}}\nlist: [1, 2]\nempty: {kept: 1}\n")
    composed = house.compose()
    assert composed.values == {"a": {"x": 1, "y": 2, "z": None}, "list": [3], "empty": {"kept": 1}}
    assert set(composed.origin) == {"a.x", "a.y", "a.z", "list", "empty.kept"}


def test_a_circle_of_includes_names_its_chain(house: House) -> None:
    house.write("main.yaml", "config_paths: [one.yaml]\n")
    house.write("one.yaml", "config_paths: [two.yaml]\n")
    house.write("two.yaml", "config_paths: [one.yaml]\n")
    with pytest.raises(ConfigError, match=r"one\.yaml -> two\.yaml -> one\.yaml"):
        house.compose()


def test_all_missing_files_are_reported_with_the_includer_and_the_nearest(house: House) -> None:
    house.write("main.yaml", "config_paths: [agent_servers/player/configs/plaier.yaml, none/at/all.yaml]\n")
    house.write("agent_servers/player/configs/player.yaml", "a: 1\n")
    with pytest.raises(ConfigError) as caught:
        house.compose()
    first, second = caught.value.problems
    assert "did you mean 'agent_servers/player/configs/player.yaml'?" in first
    assert "(included by main.yaml)" in second


def test_nemo_gyms_folder_names_are_found_under_ours(house: House) -> None:
    house.write("main.yaml", "config_paths: [responses_api_models/m/configs/m.yaml, responses_api_agents/a/a.yaml]\n")
    house.write("model_servers/m/configs/m.yaml", "a: 1\n")
    house.write("agent_servers/a/a.yaml", "config_paths: [./beside.yaml]\nb: 2\n")
    house.write("agent_servers/a/beside.yaml", "c: 3\n")
    assert house.compose().values == {"a": 1, "b": 2, "c": 3}


def test_both_names_of_a_server_type_are_one_block(house: House) -> None:
    house.write(
        "main.yaml", "config_paths: [base.yaml]\nm: {model_servers: {x: {a: 2}}}\nn: ${m.responses_api_models.x.a}\n"
    )
    house.write("base.yaml", "m: {responses_api_models: {x: {a: 1, b: 1}}}\n")
    composed = house.compose("++m.responses_api_models.x.c=3")
    assert composed.values["m"] == {"model_servers": {"x": {"a": 2, "b": 1, "c": 3}}}
    assert composed.values["n"] == 2
    assert composed.origin["m.model_servers.x.b"] == Origin("base.yaml", 1)


def test_env_yaml_comes_after_files_and_before_overrides(house: House) -> None:
    house.write("main.yaml", "a: file\nb: file\nc: file\n")
    house.write("env.yaml", "b: env\nc: env\n")
    composed = house.compose("c=line")
    assert composed.values == {"a": "file", "b": "env", "c": "line"}
    assert [str(composed.origin[key]) for key in "abc"] == ["main.yaml:1", "env.yaml:1", "command line"]


@pytest.mark.parametrize(
    ("override", "values"),
    [
        ("a.x=2", {"a": {"x": 2, "list": [1]}}),
        ("+a.y=2", {"a": {"x": 1, "list": [1], "y": 2}}),
        ("++a.x=2", {"a": {"x": 2, "list": [1]}}),
        ("++new.deep.er=2", {"a": {"x": 1, "list": [1]}, "new": {"deep": {"er": 2}}}),
        ("++a={y: 3}", {"a": {"x": 1, "list": [1], "y": 3}}),
        ("a=null", {"a": None}),
        ("++a.list.0=2", {"a": {"x": 1, "list": [2]}}),
    ],
)
def test_overrides_apply(house: House, override: str, values: dict[str, object]) -> None:
    house.write("main.yaml", "a: {x: 1, list: [1]}\n")
    assert house.compose(override).values == values


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("a.timeout=2", "does not exist.*did you mean 'timeout_s'"),
        ("+a.timeout_s=2", "exists, and .key=value only adds"),
        ("++a.timeout_s.deep=2", "'a.timeout_s' is a single value"),
        ("++a.list.1=2", "'a.list' is a list of 1; give an index, or replace it whole"),
        ("++a.list.x=2", "'a.list' is a list of 1; give an index, or replace it whole"),
        ("++a.list.0.deep=2", "'a.list.0' is a single value"),
        ("b=2", "does not exist"),
    ],
)
def test_overrides_that_do_not_fit_are_refused(house: House, override: str, message: str) -> None:
    house.write("main.yaml", "a: {timeout_s: 1, list: [1]}\n")
    with pytest.raises(ConfigError, match=message):
        house.compose(override)


def test_an_override_reaches_into_a_list_of_mappings(house: House) -> None:
    house.write("main.yaml", "e: {datasets: [{name: a, args: {seed: 0}}, {name: b}]}\n")
    composed = house.compose("e.datasets.0.args.seed=5", "++e.datasets.1.args.seed=6")
    assert composed.values["e"]["datasets"] == [{"name": "a", "args": {"seed": 5}}, {"name": "b", "args": {"seed": 6}}]
    assert str(composed.origin["e.datasets"]) == "command line"


def test_more_files_can_be_named_by_override(house: House) -> None:
    house.write("main.yaml", "a: 1\n")
    house.write("more.yaml", "a: 2\n")
    composed = house.compose("+config_paths=[more.yaml]")
    assert composed.values == {"a": 2}


def test_interpolations_resolve_in_mappings_lists_and_texts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_HOST", "example.test")
    monkeypatch.delenv("HOUSE_IMAGE", raising=False)
    house.write(
        "main.yaml",
        """
        url: http://${oc.env:HOUSE_HOST}/${path}
        path: v1
        image: ${oc.env:HOUSE_IMAGE,null}
        retries: ${oc.select:wanted_retries,3}
        chosen: ${oc.select:path,other}
        limits: {cpu: 2}
        copied: ${limits}
        items: ["${path}", {x: "${limits.cpu}"}]
        literal: \\${path}
        """,
    )
    values = house.compose().values
    assert values["url"] == "http://example.test/v1"
    assert values["image"] is None
    assert (values["retries"], values["chosen"]) == (3, "v1")
    assert values["copied"] == {"cpu": 2}
    assert values["items"] == ["v1", {"x": 2}]
    assert values["literal"] == "${path}"


def test_origins_lead_to_where_a_value_was_written(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "k")
    house.write("main.yaml", "a: ${b}\nb: ${oc.env:HOUSE_KEY}\nc: ${d}\nd: 1\ne: ${oc.env:HOUSE_NONE,2}\n")
    composed = house.compose("d=2")
    assert str(composed.origin["a"]) == "environment variable HOUSE_KEY"
    assert str(composed.origin["c"]) == "command line"
    assert str(composed.origin["e"]) == "main.yaml:5"


def test_a_list_that_interpolates_was_written_where_it_stands(house: House) -> None:
    house.write("main.yaml", 'a: ["${b}", "${nowhere}", plain]\nb: 1\n')
    composed = house.compose("b=2")
    assert str(composed.origin["a"]) == "main.yaml:1"
    assert composed.values["a"] == [2, None, "plain"]
    assert "config: nowhere: missing, used by a" in composed.unresolved["a"]


def unresolved(composed: Composed) -> list[str]:
    return [text for text in composed.unresolved.values() if text]


def test_every_missing_value_is_reported_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOUSE_KEY", raising=False)
    house.write(
        "main.yaml",
        """
        needed: ???
        uses_needed: ${needed}
        one: ${policy_base_url}
        two: ${policy_base_url}/x
        key: ${oc.env:HOUSE_KEY}
        uses_key: ${key}
        bad: ${oops
        circle: ${circle}
        """,
    )
    composed = house.compose()
    found = "\n".join(unresolved(composed))
    assert len(unresolved(composed)) == 5
    assert "config: needed: missing; give ++needed=VALUE (main.yaml:2)" in found
    assert "config: policy_base_url: missing, used by one; give ++policy_base_url=VALUE" in found
    assert "config: key: the environment variable HOUSE_KEY is not set (main.yaml:6)" in found
    assert "config: bad: not a well-formed ${...}" in found
    assert "circle" in found
    assert all(
        composed.values[key] is None for key in ("needed", "uses_needed", "one", "two", "key", "uses_key", "bad")
    )


@pytest.mark.parametrize(
    "text", ["a: {_inherit_from: b}", "a: {_copy: b}", "_delete_key: b", "a: ${inherit_from:b}", "a: ${copy:b}"]
)
def test_directives_of_nemo_gym_are_refused_by_name_with_advice(house: House, text: str) -> None:
    house.write("main.yaml", text + "\n")
    with pytest.raises(ConfigError, match="is not supported; include the file by config_paths"):
        house.compose()


def test_other_resolvers_are_refused(house: House) -> None:
    house.write("main.yaml", "a: ${oc.decode:x}\n")
    with pytest.raises(ConfigError, match=r"\$\{oc\.decode:\.\.\.\} is not supported; known: oc\.env, oc\.select"):
        house.compose()


def test_names_that_are_read_are_known_even_where_the_reader_was_overridden(house: House) -> None:
    house.write("main.yaml", "config_paths: [base.yaml]\na: 1\n")
    house.write("base.yaml", "a: ${judge_url}\nb: ${oc.select:judge_name,x}\n")
    assert house.compose().interpolated == {"judge_url", "judge_name"}


def test_absolute_files_need_no_root(house: House, tmp_path: Path) -> None:
    file = house.write("main.yaml", "a: 1\n")
    assert house.compose(files=(str(file),)).values == {"a": 1}
