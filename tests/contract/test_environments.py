"""What every environment and every benchmark has, whoever adds one: a README, a config that `gym` takes, example rows
that its grader can read, and a scripted policy that knows its questions."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym_core.cli.main import main
from gym_core.cli.selection import check_composed
from gym_core.config.blocks import CheckedConfig
from gym_core.config.compose import Composed, compose_config
from gym_core.config.datasets import SelectedDataset, read_environments, select_datasets
from gym_core.config.roots import (
    INSTALL_DIR,
    Roots,
    ServerType,
    benchmark_config,
    environment_config,
    list_benchmarks,
)
from gym_core.datasets.prepared import read_dataset
from gym_core.servers.plugins import server_class
from gym_core.servers.resources import ResourcesServer
from gym_core.types.responses import InputMessage, InputText
from gym_core.types.task import Task, TaskData
from model_servers.scripted_model.library import solver_for
from model_servers.scripted_model.players.registry import PLAYERS

ROOTS = Roots((INSTALL_DIR,))
POLICY = ("++policy_base_url=http://127.0.0.1:8000/v1", "++policy_api_key=EMPTY", "++policy_model_name=m")
ENVIRONMENTS = [name for name in ROOTS.names_in("resources_servers") if ROOTS.find(f"resources_servers/{name}/configs")]
BENCHMARKS = list_benchmarks(ROOTS)

WITHOUT_EXAMPLES = {
    "resources_servers/visual_coding_opencode": "an environment of its benchmarks, which have the rows",
    "benchmarks/babyvision_opencode": "BabyVision's pictures may be fetched and not passed on",
    "benchmarks/babyvision_opencode_question_only": "as its sibling",
    "benchmarks/visual_puzzles_no_tools": "as visual_puzzles_opencode, with its rows and its grader",
    "benchmarks/visual_puzzles_opencode": "its rows are drawn, and tests/unit/puzzles look at every kind of them",
}
UNPLAYED = {"resources_servers/echo": "the smallest environment there can be: its rows have no picture to look at"}
"""Of which the scripted policy knows no question."""


@dataclass(frozen=True)
class Entry:
    """An environment or a benchmark."""

    folder: str
    """Relative, such as "benchmarks/dominant_color"."""

    @property
    def name(self) -> str:
        return self.folder.rpartition("/")[2]

    @property
    def config(self) -> Path:
        find = benchmark_config if self.folder.startswith("benchmarks/") else environment_config
        return find(self.name, ROOTS)

    def composed(self) -> Composed:
        policy = INSTALL_DIR / "model_servers/vllm_model/configs/vllm_model.yaml"
        return compose_config([self.config, policy], POLICY, roots=ROOTS)

    def datasets(self) -> list[SelectedDataset]:
        """Of every split; none where the config has no environment."""
        composed = self.composed()
        environments = read_environments(composed)
        has_some = any(environment.datasets for environment in environments.values())
        return select_datasets(environments, composed, split=None, environment=None) if has_some else []

    def examples(self) -> list[SelectedDataset]:
        return [dataset for dataset in self.datasets() if dataset.dataset.type == "example"]


ENTRIES = [Entry(f"resources_servers/{name}") for name in ENVIRONMENTS]
ENTRIES += [Entry(f"benchmarks/{name}") for name in BENCHMARKS]

every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.folder)
with_examples = pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry.folder not in WITHOUT_EXAMPLES], ids=lambda entry: entry.folder
)


@pytest.fixture(autouse=True)
def _judge_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """That some configs take from the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")


@every_entry
def test_it_is_listed_with_a_whole_sentence(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "benchmarks" if entry.folder.startswith("benchmarks/") else "environments"
    assert main(["list", "--json", kind]) == 0
    listed = {found["name"]: found["description"] for found in json.loads(capsys.readouterr().out)}
    assert entry.name in listed, f"no config {entry.name!r} is found by its name"
    assert listed[entry.name].endswith("."), f"the first sentence of {entry.folder}/README.md: {listed[entry.name]!r}"


@every_entry
def test_its_config_is_taken(entry: Entry) -> None:
    checked = check_composed(entry.composed())
    assert [server for server in checked.run.servers.values() if server.type is ServerType.RESOURCES]


def test_every_grader_is_one_of_some_environment() -> None:
    graders = {name for name in ROOTS.names_in("resources_servers") if ROOTS.find(f"resources_servers/{name}/app.py")}
    used = [
        server.implementation
        for name in ENVIRONMENTS
        for server in check_composed(Entry(f"resources_servers/{name}").composed()).run.servers.values()
    ]
    assert graders <= set(used), "a resources server without a config that plays it: configs/NAME.yaml in its folder"


def test_every_prepare_script_is_one_of_some_benchmark() -> None:
    scripts = {INSTALL_DIR / "benchmarks" / name / "prepare.py" for name in ROOTS.names_in("benchmarks")}
    used = {dataset.script for name in BENCHMARKS for dataset in Entry(f"benchmarks/{name}").datasets()}
    assert {script for script in scripts if script.exists()} <= used, "a benchmark without config.yaml in its folder"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_has_rows_or_a_script_that_makes_them(name: str) -> None:
    splits = [dataset for dataset in Entry(f"benchmarks/{name}").datasets() if dataset.dataset.type == "benchmark"]
    assert splits
    assert [dataset.path for dataset in splits if dataset.script is None and not dataset.path.exists()] == []


@with_examples
def test_its_example_rows_are_there_and_its_grader_reads_them(entry: Entry) -> None:
    datasets = entry.examples()
    assert datasets, f"{entry.folder}: no dataset of type example: add rows, checked in as data/example.jsonl"
    checked = check_composed(entry.composed())
    for dataset in datasets:
        task_type = _task_type(checked, dataset.environment)
        tasks = list(read_dataset(dataset.path))
        assert tasks
        for task in tasks:
            task_type.model_validate(task.task_data)


@with_examples
def test_the_scripted_policy_knows_its_questions(entry: Entry) -> None:
    if entry.folder in UNPLAYED:
        return
    for dataset in entry.examples():
        unknown = [task.id.task_id for task in read_dataset(dataset.path) if not _is_known(task)]
        assert unknown == [], f"{entry.folder}: no player and no solver in model_servers/scripted_model knows these"


@pytest.mark.parametrize("folder", [*WITHOUT_EXAMPLES, *UNPLAYED])
def test_an_exception_is_still_one(folder: str) -> None:
    entry = Entry(folder)
    if folder in WITHOUT_EXAMPLES:
        assert entry.examples() == []
    else:
        assert not any(_is_known(task) for dataset in entry.examples() for task in read_dataset(dataset.path))


def _task_type(checked: CheckedConfig, environment: str) -> type[TaskData]:
    """What the grader of an environment reads of a row."""
    instance = checked.run.servers[checked.run.environments[environment].resources_server.name]
    found = server_class(ServerType.RESOURCES, instance.implementation, ROOTS)
    assert issubclass(found, ResourcesServer)
    return found.task_type


def _is_known(task: Task) -> bool:
    messages = [item for item in task.responses_create_params.items if isinstance(item, InputMessage)]
    question = "\n".join(part.text for part in messages[-1].parts if isinstance(part, InputText))
    return any(player.question in question for player in PLAYERS) or solver_for(question) is not None
