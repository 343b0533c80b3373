import pytest

from gym_core.cli.main import main
from gym_core.cli.selection import Selection
from gym_core.cli.serve import with_address
from gym_core.config.resolve import read_run_config
from tests.unit.config.house import House

GIVEN = ("++policy_base_url=http://h/v1", "++policy_api_key=k")
SELECTION = Selection("puzzles", None, "vllm_model", (), (), GIVEN)


def test_an_unknown_server_is_refused_with_the_nearest(furnished: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "policy_modl", "--benchmark", "puzzles", "--model-type", "vllm_model", *GIVEN]) == 2
    assert "serve: no server 'policy_modl'; did you mean 'policy_model'?" in capsys.readouterr().err


def test_the_address_of_the_command_line_is_that_of_the_block(furnished: House) -> None:
    served = with_address(SELECTION, "player", host="0.0.0.0", port=8100)
    block = read_run_config(served.compose()).servers["player"].block
    assert (block["host"], block["port"], block["timeout_s"]) == ("0.0.0.0", 8100, 900)


def test_the_head_server_is_served_by_its_own_block(furnished: House) -> None:
    served = with_address(SELECTION, "head", host=None, port=11000)
    assert read_run_config(served.compose()).head.port == 11000
    assert with_address(SELECTION, "head", host=None, port=None) == SELECTION
