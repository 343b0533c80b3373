import sys
from pathlib import Path

import pytest

from gym_core.cli.main import main
from gym_core.config.roots import EXTRA_ROOTS_VARIABLE

APP = """
from gym_core.servers.base import Server, ServerConfig
from gym_core.types.wire import Secret


class StubConfig(ServerConfig):
    api_key: Secret


class Stub(Server[StubConfig]):
    config_type = StubConfig
"""
CONFIG = """
policy_model:
  responses_api_models:
    stub_of_a_test:
      api_key: ${policy_api_key}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An author's own folder with a model server, seen only when it is named."""
    import model_servers

    monkeypatch.setattr(model_servers, "__path__", list(model_servers.__path__))
    monkeypatch.delenv(EXTRA_ROOTS_VARIABLE, raising=False)
    here = tmp_path / "own"
    server = here / "model_servers" / "stub_of_a_test"
    (server / "configs").mkdir(parents=True)
    (server / "app.py").write_text(APP)
    (server / "configs" / "stub_of_a_test.yaml").write_text(CONFIG)
    return here


def test_a_server_in_an_authors_own_folder_is_found_by_search_dir(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["config", "show", "--model-type", "stub_of_a_test", "++policy_api_key=sk-of-the-test"]
    assert main(words) == 2
    assert "no model type 'stub_of_a_test'" in capsys.readouterr().err
    try:
        assert main([*words, "--search-dir", str(folder)]) == 0
    finally:
        sys.modules.pop("model_servers.stub_of_a_test.app", None)
        sys.modules.pop("model_servers.stub_of_a_test", None)
    shown = capsys.readouterr().out
    assert "api_key: '****'" in shown or 'api_key: "****"' in shown
    assert "sk-of-the-test" not in shown
