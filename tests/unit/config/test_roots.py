import os
from pathlib import Path

import pytest

from gym_core.config.roots import (
    INSTALL_DIR,
    Roots,
    benchmark_config,
    dataset_path,
    description_of,
    environment_config,
    list_agents,
    list_benchmarks,
    list_environments,
    list_models,
    lookup_roots,
    model_type_config,
)
from gym_core.errors import ConfigError
from tests.unit.config.house import House


def test_roots_come_in_order_of_preference(house: House) -> None:
    for name in ("asked", "extra", "more"):
        (house.folder / name).mkdir()
    environ = {"GYM_EXTRA_ROOTS": os.pathsep.join(["extra", "more"])}
    roots = lookup_roots(["asked"], environ=environ)
    expected = [house.folder / name for name in ("asked", "extra", "more")]
    assert roots.paths == (*expected, house.folder, INSTALL_DIR)


def test_every_search_folder_that_is_none_is_reported(house: House) -> None:
    with pytest.raises(ConfigError) as caught:
        lookup_roots(["no", "neither"], environ={"GYM_EXTRA_ROOTS": "nor"})
    assert caught.value.problems == [
        "config: --search-dir 'no' is not a folder",
        "config: --search-dir 'neither' is not a folder",
        "config: GYM_EXTRA_ROOTS 'nor' is not a folder",
    ]


def test_names_lead_to_their_config_and_unknown_ones_to_the_nearest(house: House) -> None:
    house.furnish()
    assert benchmark_config("puzzles", house.roots) == house.folder / "benchmarks/puzzles/config.yaml"
    assert environment_config("grader", house.roots).name == "grader.yaml"
    assert model_type_config("vllm_model", house.roots).name == "vllm_model.yaml"
    with pytest.raises(ConfigError, match="no benchmark 'puzles'; did you mean 'puzzles'?"):
        benchmark_config("puzles", house.roots)
    with pytest.raises(ConfigError, match="no model type 'openai'; known: vllm_model"):
        model_type_config("openai", house.roots)


def test_lists_show_what_has_a_config(house: House) -> None:
    house.furnish()
    (house.folder / "benchmarks/empty").mkdir()
    found = [listing(house.roots) for listing in (list_benchmarks, list_environments, list_agents, list_models)]
    assert found == [["puzzles"], ["grader"], [], ["vllm_model"]]


def test_a_description_is_the_first_sentence_of_prose(house: House) -> None:
    for text, shown in (
        ("# A\n\n![badge](x)\n\nPuzzles with exact answers.\nMore.\n", "Puzzles with exact answers."),
        ("# A\n\nPuzzles with\nexact answers (e.g. `v1.2`). More.\n", "Puzzles with exact answers (e.g. `v1.2`)."),
        ("# A\n\nNo full stop\n\nAnother paragraph.\n", "No full stop"),
        ("# A\n\n" + "many words, " * 20 + "\n", "many words, " * 9 + "many words ..."),
    ):
        house.write("benchmarks/a/README.md", text)
        assert description_of("benchmarks/a", house.roots) == shown
    assert description_of("benchmarks/b", house.roots) == ""


def test_the_most_specific_root_names_a_file(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    roots = Roots((tmp_path, inner))
    assert roots.label(inner / "x.yaml") == "x.yaml"
    assert roots.label(Path("/elsewhere/x.yaml")) == "/elsewhere/x.yaml"


def test_a_dataset_lies_where_it_exists_else_beside_its_script_else_here(house: House, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "b").mkdir(parents=True)
    (other / "b" / "prepare.py").touch()
    roots = Roots((other,))
    assert dataset_path("b/data/x.jsonl", "b/prepare.py", roots) == other / "b/data/x.jsonl"
    assert dataset_path("b/data/x.jsonl", None, roots) == house.folder / "b/data/x.jsonl"
    house.write("b/data/x.jsonl", "")
    assert dataset_path("b/data/x.jsonl", "b/prepare.py", roots) == house.folder / "b/data/x.jsonl"
    assert dataset_path("/abs/x.jsonl", "b/prepare.py", roots) == Path("/abs/x.jsonl")


def test_the_data_of_a_benchmark_with_a_shared_script_lie_in_the_benchmarks_folder(
    house: House, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "shared").mkdir(parents=True)
    (other / "shared" / "prepare.py").touch()
    roots = Roots((other,))
    assert dataset_path("s/b/data/x.jsonl", "shared/prepare.py", roots) == other / "s/b/data/x.jsonl"
    (house.folder / "s" / "b").mkdir(parents=True)
    assert dataset_path("s/b/data/x.jsonl", "shared/prepare.py", roots) == house.folder / "s/b/data/x.jsonl"
