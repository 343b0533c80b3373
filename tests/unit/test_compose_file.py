"""The compose files hold together without an engine: they are what the Compose Specification takes, name only what is
there, ask for every variable that has no default, and let nobody reach more than the document says.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from gym_core.types.wire import JsonObject

ROOT = Path(__file__).parents[2]
FILE = "compose.yaml"
SERVERS = ("head", "policy", "judge", "agent", "resources")
SCHEMA = Path(__file__).parents[1] / "data" / "compose-spec.json"
MARKER = "a-value"

_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?])([^}]*))?\}|(\w*))")


def rendered(text: str, given: dict[str, str]) -> str:
    """As compose interpolates a value. Raises ValueError for one that would silently be empty, or that is missing."""

    def replace(found: re.Match[str]) -> str:
        name, operator, rest, bare = found.groups()
        if found[0] == "$$":
            return "$"
        if given.get(name or bare):
            return given[name or bare]
        if operator is None:
            raise ValueError(f"{found[0]} would be empty without a word: give it a default, or ask for it with `:?`")
        if operator.endswith("?"):
            raise ValueError(f"{name}: {rest}")
        return str(rest)

    return _VARIABLE.sub(replace, text)


def values_of(node: object) -> Iterator[str]:
    match node:
        case dict():
            for value in node.values():
                yield from values_of(value)
        case list():
            for value in node:
                yield from values_of(value)
        case str():
            yield node


def with_values(node: object, given: dict[str, str]) -> object:
    match node:
        case dict():
            return {key: with_values(value, given) for key, value in node.items()}
        case list():
            return [with_values(value, given) for value in node]
        case str():
            return rendered(node, given)
    return node


def read(file: str) -> JsonObject:
    found: JsonObject = yaml.safe_load((ROOT / file).read_text())
    return found


def required_in(file: JsonObject) -> dict[str, str]:
    """Name of each variable without a default, with the words that ask for it."""
    found = [_VARIABLE.finditer(text) for text in values_of(file)]
    return {str(v[1]): str(v[3]) for variables in found for v in variables if (v[2] or "").endswith("?")}


@pytest.fixture(scope="module")
def compose() -> JsonObject:
    return read(FILE)


@pytest.fixture(scope="module")
def services(compose: JsonObject) -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = compose["services"]
    return found


def files() -> list[str]:
    """compose.yaml, and those that are laid over it."""
    over = [
        path for path in (ROOT / "compose").glob("*.yaml") if "services" in (yaml.safe_load(path.read_text()) or {})
    ]
    return [FILE, *(str(path.relative_to(ROOT)) for path in sorted(over))]


@pytest.mark.parametrize("name", files())
def test_each_file_is_what_the_compose_specification_takes(name: str) -> None:
    file = read(name)
    filled = with_values(file, dict.fromkeys(required_in(file), MARKER))
    errors = [
        f"{'.'.join(map(str, error.instance_path))}: {error.message}"
        for error in jsonschema_rs.validator_for(json.loads(SCHEMA.read_text())).iter_errors(filled)
    ]
    assert errors == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"services": {"a": {"image": "x", "networs": ["n"]}}},
        {"services": {"a": {"image": 3}}},
        {"services": {"a": {"healthcheck": {"test": "x", "retries": "often"}}}},
        {"nets": {}},
    ],
)
def test_the_schema_finds_a_misspelt_key_and_a_wrong_type(wrong: JsonObject) -> None:
    assert not jsonschema_rs.is_valid(json.loads(SCHEMA.read_text()), wrong)


@pytest.mark.parametrize("name", files())
def test_every_variable_has_a_default_or_words_that_ask_for_it(name: str) -> None:
    file = read(name)
    required = required_in(file)
    assert all(len(words) > 10 for words in required.values()), required
    with_values(file, dict.fromkeys(required, MARKER))
    for missing in required:
        with pytest.raises(ValueError, match=missing):
            with_values(file, {other: MARKER for other in required if other != missing})


@pytest.mark.parametrize("text", ["$HOME", "${HOME}", "a ${X} b"])
def test_one_that_would_silently_be_empty_is_found(text: str) -> None:
    with pytest.raises(ValueError, match="would be empty"):
        rendered(text, {})
    assert rendered("$$x ${A:-b} ${C:?say}", {"C": "d"}) == "$x b d"


def test_networks_volumes_and_services_that_are_named_are_there(compose: JsonObject) -> None:
    for name in files():
        over = read(name)
        networks = {**compose["networks"], **(over.get("networks") or {})}
        for service, fields in over["services"].items():
            assert service in compose["services"]
            assert set(fields.get("networks", [])) <= set(networks), service
            named = {str(volume).partition(":")[0] for volume in fields.get("volumes", []) if isinstance(volume, str)}
            assert {volume for volume in named if re.fullmatch(r"\w+", volume)} <= set(compose["volumes"]), service
    used = {
        network for name in files() for fields in read(name)["services"].values() for network in networks_of(fields)
    }
    assert set(compose["networks"]) <= used


def test_whoever_waits_for_another_waits_for_something_that_comes(services: dict[str, JsonObject]) -> None:
    for name, service in services.items():
        for other, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "test" in services[other]["healthcheck"], (name, other)
            else:
                assert (wait["condition"], services[other]["restart"]) == ("service_completed_successfully", "no")


def test_every_server_has_a_health_check_and_what_runs_once_has_none(services: dict[str, JsonObject]) -> None:
    watched = {name for name, service in services.items() if "test" in service.get("healthcheck", {})}
    assert watched == set(SERVERS)
    assert {name for name in services if services[name]["restart"] == "no"} == set(services) - watched


# -- who reaches whom -------------------------------------------------------------------------------------------------


def networks_of(service: JsonObject) -> set[str]:
    return set(service.get("networks", ()))


def test_of_the_servers_only_head_and_resources_reach_more_than_those_two(services: dict[str, JsonObject]) -> None:
    """The policy server is called by sandboxes, the agent server plays what a model wrote, the judge reads it."""
    neighbours = {
        name: {
            other for other in services if other != name and networks_of(services[name]) & networks_of(services[other])
        }
        for name in services
    }
    others = {"policy", "judge", "agent"}
    assert neighbours == {
        "head": {"resources", *others},
        "resources": {"head", *others},
        **dict.fromkeys(others, {"head", "resources"}),
        "prepare": set(),
        "sandbox_image": set(),
    }


def test_only_those_who_call_endpoints_or_download_have_a_way_out(
    compose: JsonObject, services: dict[str, JsonObject]
) -> None:
    def leads_out(network: JsonObject | None) -> bool:
        options = (network or {}).get("driver_opts", {})
        masquerades = options.get("com.docker.network.bridge.enable_ip_masquerade") != "false"
        return not (network or {}).get("internal") and masquerades

    ways_out = {name for name, network in compose["networks"].items() if leads_out(network)}
    assert {name for name, service in services.items() if networks_of(service) & ways_out} == {
        *("policy", "judge", "prepare")
    }
    for way in ways_out:
        assert len([name for name in services if way in networks_of(services[name])]) == 1


def test_the_document_has_a_row_for_each_network_with_who_is_in_it(
    compose: JsonObject, services: dict[str, JsonObject]
) -> None:
    document = (ROOT / "docs" / "docker.md").read_text()
    for network in compose["networks"]:
        members = ", ".join(name for name in services if network in networks_of(services[name]))
        assert re.search(rf"^\| `{network}` \| {members} \|", document, re.MULTILINE), (network, members)
