import json
from pathlib import Path

import pytest
import yaml

from gym_core.cli.main import main
from tests.unit.config.house import House

SHOW = ["config", "show", "--benchmark", "puzzles", "--model-type", "vllm_model"]


def test_show_prints_yaml_with_secrets_masked_and_the_origin_of_each_value(
    furnished: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOUSE_KEY", "sk-from-environment")
    words = ["++policy_base_url=http://u:sk-from-environment@h/v1", "++policy_api_key=${oc.env:HOUSE_KEY}", "++limit=3"]
    assert main([*SHOW, *words]) == 0
    captured = capsys.readouterr()
    assert "sk-from-environment" not in captured.out + captured.err
    values = yaml.safe_load(captured.out)
    assert values["policy_model"]["model_servers"]["vllm_model"] == {"base_url": "****", "api_key": "****"}
    assert values["player"]["agent_servers"]["player"]["timeout_s"] == 900
    assert values["puzzles"]["environment_servers"]["single_agent_turn_legacy"]["datasets"][0]["name"] == "puzzles"
    origins = {line.partition(":")[0].strip(): line.partition("# ")[2] for line in captured.out.splitlines()}
    assert origins["timeout_s"] == "resources_servers/grader/configs/grader.yaml:10"
    assert origins["policy_api_key"] == "environment variable HOUSE_KEY"
    assert origins["api_key"] == "environment variable HOUSE_KEY"
    assert origins["limit"] == "command line"
    assert captured.err == ""


def test_show_as_json_has_values_and_origins(furnished: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHOW, "--json", "++policy_base_url=http://h/v1", "++policy_api_key=sk-on-the-line"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["values"]["policy_api_key"] == "****"
    assert shown["values"]["policy_base_url"] == "http://h/v1"
    assert shown["origin"]["player.agent_servers.player.timeout_s"].startswith("resources_servers/grader")


def test_a_key_on_the_command_line_is_warned_about(furnished: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHOW, "++policy_base_url=http://h/v1", "++policy_api_key=sk-on-the-line"]) == 0
    assert "warning: policy_api_key stands in the process list" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@host/v1",
        "http://user:hunter2/@host/v1",
        "ftp://user:hunter2@host",
        "user:hunter2@host/v1",
        "http://hunter2@host/v1",
        "http://user:hunter2@" + "host" * 50,
    ],
)
@pytest.mark.parametrize("model_type", ["vllm_model", "openai_model"])
def test_a_mistake_in_a_url_is_told_without_its_password(
    tmp_path: Path, url: str, model_type: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    show = ["config", "show", "--model-type", model_type]
    words = [f"++policy_base_url={url}", "++policy_api_key=k", "++policy_model_name=m"]
    assert main([*show, *words]) == 2
    captured = capsys.readouterr()
    assert "base_url" in captured.err
    assert "****@host" in captured.err
    assert "hunter2" not in captured.err + captured.out


def test_the_headers_of_a_gateway_are_shown_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block = "++policy_model.model_servers.openai_model.openai_default_headers={X-Key: gw-jjqj}"
    words = ["++policy_base_url=http://h/v1", "++policy_api_key=k", "++policy_model_name=m", block]
    assert main(["config", "show", "--model-type", "openai_model", *words]) == 0
    captured = capsys.readouterr()
    assert "X-Key" in captured.out
    assert "gw-jjqj" not in captured.out + captured.err


def test_every_mistake_is_printed_and_nothing_else(furnished: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHOW, "++limit=0", "++player.agent_servers.player.timout_s=1"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "config: policy_base_url: missing" in captured.err
    assert "config: policy_api_key: missing" in captured.err
    assert "config: limit: 0 is not > 0 (command line)" in captured.err
    assert "timout_s: unknown field; did you mean 'timeout_s'?" in captured.err


def test_what_yaml_would_read_differently_is_quoted(furnished: House, capsys: pytest.CaptureFixture[str]) -> None:
    furnished.write("env.yaml", 'a: "5"\nb: "no: really"\nc: "# x"\nd: [1, "2", {e: "a\\nb", h: {}}]\nf: 0123\ng: ""\n')
    assert main([*SHOW, "++policy_base_url=http://h/v1", "++policy_api_key="]) == 0
    values = yaml.safe_load(capsys.readouterr().out)
    expected = {"a": "5", "b": "no: really", "c": "# x", "d": [1, "2", {"e": "a\nb", "h": {}}], "g": ""}
    assert {name: values[name] for name in expected} == expected
