"""`gym sandbox check` before a provider that cannot be had, and mistakes found before any is asked."""

import socket
from pathlib import Path

import pytest

from gym_core.cli.main import main

RESOURCES = "resources_servers/visual_coding_opencode/configs/visual_coding_opencode.yaml"


@pytest.fixture(autouse=True)
def _nothing_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENSANDBOX_DOMAIN", "DOCKER_HOST", "VISUAL_CODING_OPENCODE_SANDBOX_IMAGE"):
        monkeypatch.delenv(name, raising=False)


def said_by(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> str:
    assert main(["sandbox", "check", *words]) == code
    return capsys.readouterr().err


def test_without_an_engine_it_says_what_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    said = said_by(capsys, "--provider", "docker", code=1)
    assert said.startswith("docker: no engine at ")
    assert "start Docker" in said


def test_without_a_server_it_says_which_variable_names_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unnamed = said_by(capsys, "--provider", "opensandbox", code=2)
    assert unnamed.startswith("opensandbox.domain: ")
    assert "OPENSANDBOX_DOMAIN" in unnamed
    monkeypatch.setenv("OPENSANDBOX_DOMAIN", "127.0.0.1:9")
    *warned, last = said_by(capsys, "--provider", "opensandbox", code=1).splitlines()
    assert "http://127.0.0.1:9" in last
    assert last.count("opensandbox: ") == 1
    assert warned
    assert all(line.startswith("sandbox creation failed: creation: ") for line in warned)


def test_without_a_toolkit_it_says_what_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GYM_CACHE_DIR", str(tmp_path))
    assert "`gym sandbox build` makes it" in said_by(capsys, code=1)


def test_each_block_of_a_configuration_is_asked_with_what_its_server_wants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        f"config_paths: [{RESOURCES}]\n"
        f"near: {{docker: {{host: 'unix://{tmp_path}/near.sock'}}}}\n"
        f"far: {{docker: {{host: 'unix://{tmp_path}/far.sock'}}}}\n"
        "visual_coding_opencode:\n  resources_servers:\n    visual_coding_opencode: {sandbox_provider: near}\n"
    )
    said = said_by(capsys, "--config", str(config), "--provider", "docker", code=1)
    assert [line.partition(":")[0] for line in said.splitlines()] == ["near", "far"]
    assert "no sandbox block of 'opensandbox'" in said_by(
        capsys, "--config", str(config), "--provider", "opensandbox", code=2
    )


def test_mistakes_are_named_before_any_provider_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        f"config_paths: [{RESOURCES}]\n"
        "visual_coding_opencode:\n  resources_servers:\n    visual_coding_opencode:\n"
        "      sandbox_config: {mounts: [{source: /etc, target: /data}]}\n"
    )
    said = said_by(capsys, "--config", str(config), code=2)
    assert "visual_coding_opencode.sandbox_config.mounts.0.source: " in said
    assert "none is selected" in said_by(capsys, "++sandbox.local.state_dir=/x", code=2)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("mounts: [{source: FOLDER, target: /data}]", "mounts.0.source: 'FOLDER' holds a socket"),
        ("mounts: [{source: FOLDER/none, target: /data}]", "mounts.0.source: 'FOLDER/none' is no folder or file"),
        (
            "mounts: [{source: STATE/run/token, target: /data}]",
            "mounts.0.source: 'STATE/run/token' is, holds or lies in",
        ),
        ("mounts: [{source: ROOT, target: /data}]", "mounts.0.source: 'ROOT' is, holds or lies in"),
        ("mounts: [{source: BOXES/owners, target: /data}]", "mounts.0.source: 'BOXES/owners' is, holds or lies in"),
        ("ttl_s: -1", "ttl_s: -1 is not > 0"),
    ],
)
def test_what_a_run_would_refuse_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: str, said: str
) -> None:
    folder = tmp_path / "shown"
    folder.mkdir()
    names = {"FOLDER": folder, "STATE": tmp_path / "state", "BOXES": tmp_path / "boxes", "ROOT": tmp_path}
    for name, path in names.items():
        asked, said = asked.replace(name, str(path)), said.replace(name, str(path))
    config = tmp_path / "c.yaml"
    config.write_text(
        f"config_paths: [{RESOURCES}]\n"
        "visual_coding_opencode:\n  resources_servers:\n    visual_coding_opencode:\n"
        f"      sandbox_config: {{{asked}}}\n"
        f"sandbox: {{local: {{state_dir: {tmp_path}/boxes}}}}\n"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        assert f"sandbox_config.{said}" in said_by(capsys, "--config", str(config), code=2)
