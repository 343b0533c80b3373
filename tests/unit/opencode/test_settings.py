import json
from datetime import UTC, datetime

import pytest

from agent_servers.opencode_agent import settings
from agent_servers.opencode_agent.settings import Model, make_config, make_environment, run_command
from gym_core.types.wire import JsonObject

MODEL = Model(
    base_url="http://127.0.0.1:8001/v1", api_key="session-key", context_tokens=131072, max_output_tokens=32768
)


def config(model: Model = MODEL) -> JsonObject:
    parsed: JsonObject = json.loads(make_config(model, timeout_s=1800))
    return parsed


def the_model(parsed: JsonObject) -> JsonObject:
    found: JsonObject = parsed["provider"]["policy"]["models"]["policy"]
    return found


def test_opencode_is_told_where_the_policy_is_and_that_it_takes_images() -> None:
    options = config()["provider"]["policy"]["options"]
    assert (options["baseURL"], options["apiKey"]) == ("http://127.0.0.1:8001/v1", "session-key")
    assert the_model(config())["modalities"] == {"input": ["text", "image"], "output": ["text"]}
    assert the_model(config())["limit"] == {"context": 131072, "output": 32768}


def test_the_runs_wall_limit_strikes_before_opencodes_own() -> None:
    assert config()["provider"]["policy"]["options"]["timeout"] > 1800 * 1000


def test_no_option_makes_opencode_retry_a_slow_stream_silently() -> None:
    assert {"chunkTimeout", "headerTimeout"}.isdisjoint(config()["provider"]["policy"]["options"])


def test_pictures_are_never_shrunk() -> None:
    limits = config()["attachment"]["image"]
    assert limits["auto_resize"] is False
    assert min(limits["max_width"], limits["max_height"]) >= 64_000_000
    assert limits["max_base64_bytes"] >= 32 * 2**20 * 4 / 3


def test_one_session_is_one_chain_of_calls() -> None:
    parsed = config()
    assert parsed["compaction"] == {"auto": False, "prune": False}
    assert parsed["agent"] == {"title": {"disable": True}, "summary": {"disable": True}}
    assert "--title" in run_command([])[-1]
    assert "steps" not in str(parsed)


def test_every_permission_is_settled_beforehand_and_subagents_are_denied() -> None:
    permission = config()["permission"]
    assert next(iter(permission)) == "*"  # the last match wins
    assert set(permission.values()) == {"allow", "deny"}
    assert (permission["*"], permission["doom_loop"], permission["external_directory"]) == ("allow",) * 3
    assert (permission["task"], permission["question"], permission["webfetch"]) == ("deny",) * 3


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (MODEL, {}),
        (Model("u", "k", 1000, 100, temperature=0.0), {"temperature": 0.0}),
        (Model("u", "k", 1000, 100, temperature=0.7, top_p=0.9), {"temperature": 0.7, "top_p": 0.9}),
    ],
)
def test_sampling_is_sent_only_when_the_task_names_it(model: Model, options: JsonObject) -> None:
    assert the_model(config(model))["options"] == options


def test_the_prompt_comes_from_a_file_and_all_output_goes_to_files() -> None:
    shell, flag, line = run_command(["/workspace/image.png"])
    assert (shell, flag) == ("/bin/sh", "-c")
    assert line.endswith(f"<{settings.PROMPT_FILE} >{settings.EVENTS_FILE} 2>{settings.LOG_FILE}")
    assert "|" not in line


def test_each_image_is_its_own_argument_and_quoted() -> None:
    line = run_command(["/workspace/image_1.png", "/workspace/my image.jpg"])[-1]
    assert "--file=/workspace/image_1.png '--file=/workspace/my image.jpg' <" in line


def test_a_run_starts_without_what_an_earlier_one_left() -> None:
    line = run_command([])[-1]
    assert line.startswith(f"rm -rf {settings.STATE_DIR} {settings.EVENTS_FILE}")


def test_nothing_of_the_run_lies_in_the_workspace() -> None:
    paths = (settings.CONFIG_FILE, settings.PROMPT_FILE, settings.EVENTS_FILE, settings.LOG_FILE, settings.STATE_DIR)
    assert not [path for path in paths if path.startswith(("/workspace", "/tmp"))]


def test_the_environment_keeps_opencode_offline_and_its_state_in_the_runs_folder() -> None:
    env = make_environment(max_output_tokens=32768, timezone="UTC")
    assert env["OPENCODE_MODELS_PATH"] == "/opt/toolkit/opencode/models.json"
    assert env["OPENCODE_DISABLE_MODELS_FETCH"] == env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert env["OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX"] == "32768"
    assert env["PATH"].split(":")[0] == "/opt/toolkit/bin"
    assert all(env[f"XDG_{name}_HOME"].startswith(settings.RUN_DIR) for name in ("DATA", "CACHE", "STATE"))
    assert env["TMPDIR"] == "/tmp"


@pytest.mark.parametrize(
    ("now", "timeout_s", "zone"),
    [
        ("2026-11-29T12:00:00", 1800, "UTC"),
        ("2026-11-29T23:20:00", 1800, "UTC"),
        ("2026-11-29T23:26:00", 1800, "Etc/GMT+12"),
        ("2026-11-29T23:59:59", 60, "Etc/GMT+12"),
        ("2026-11-30T00:00:00", 1800, "UTC"),
        ("2026-11-29T08:00:00", 80_000, "Etc/GMT+8"),
    ],
)
def test_no_run_sees_midnight(now: str, timeout_s: float, zone: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert settings.timezone_away_from_midnight(moment, timeout_s) == zone
