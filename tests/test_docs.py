"""The documents are true: their commands parse, their configs compose, their routes, columns and links exist."""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym_core.cli.command_line import build_parser
from gym_core.cli.selection import check_composed
from gym_core.config.compose import Composed, compose_config
from gym_core.config.datasets import SelectedDataset, select_datasets
from gym_core.config.overrides import parse_overrides
from gym_core.config.reading import ConfigReading
from gym_core.config.roots import (
    INSTALL_DIR,
    Roots,
    ServerType,
    benchmark_config,
    environment_config,
    model_type_config,
)
from gym_core.datasets.prepared import read_dataset
from gym_core.errors import FAILURE_POLICY, ConfigError, FailureKind
from gym_core.http.client import HttpPool
from gym_core.launch.head import Head
from gym_core.launch.plan import HeadSlice
from gym_core.rollout.output import OutputFiles
from gym_core.rollout.plan import plan_rollouts
from gym_core.servers.base import Server
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.plugins import server_class
from gym_core.types.flat_row import flat_from_record
from gym_core.types.run import RunOptions
from gym_core.types.wire import Wire
from tests.fakes.rollouts import make_record, make_task

ROOT = Path(__file__).resolve().parents[1]
POLICY = ("++policy_base_url=http://127.0.0.1:8000/v1", "++policy_api_key=EMPTY", "++policy_model_name=m")
OWN_FOLDERS = ("docs", "benchmarks", "resources_servers", "agent_servers", "model_servers", "sandbox_image")
TEXT = {".md", ".py", ".toml", ".yaml", ".yml", ".txt", ".sh"}


def _pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(page for folder in OWN_FOLDERS for page in (ROOT / folder).rglob("*.md"))]
    return sorted(page for page in found if "data" not in page.relative_to(ROOT).parts)


def _ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


pages = pytest.mark.parametrize("page", _pages(), ids=_ids)


# -- commands ---------------------------------------------------------------

_WORDS_BEFORE = re.compile(r"^(?:[A-Z_]+=\S* +)+(?=gym )")
_INLINE = re.compile(r"`(gym [a-z][^`]*)`")
_ONLY_NAMED = ("gym export", "gym view", "gym eval summary", "gym eval compare", "gym eval rejudge", "gym eval replay")
"""Commands that take nothing less than arguments; a sentence may name one all the same."""


def _commands(text: str) -> Iterator[str]:
    """Each `gym ...` of a code block (continued lines joined) or of inline code."""
    for line in text.replace("\\\n", " ").splitlines():
        line = _WORDS_BEFORE.sub("", line.strip())
        if line.startswith("gym "):
            yield line.partition(" && ")[0]
    inline = (command.partition(" && ")[0] for command in _INLINE.findall(text))
    yield from (command for command in inline if command not in _ONLY_NAMED)


@pages
def test_every_command_is_one_that_gym_takes(page: Path) -> None:
    for command in _commands(page.read_text(encoding="utf-8")):
        words = shlex.split(command, comments=True)[1:]
        args, rest = build_parser(words).parse_known_args(words)
        assert [word for word in rest if word.startswith("-")] == [], command
        assert not rest or args.takes_overrides, command
        parse_overrides(rest)


@pages
def test_every_name_a_command_selects_is_there(page: Path, own_root: Path) -> None:
    roots = Roots((own_root, INSTALL_DIR))
    for command in _commands(page.read_text(encoding="utf-8")):
        words = shlex.split(command, comments=True)[1:]
        args, _ = build_parser(words).parse_known_args(words)
        for name, find in (
            (getattr(args, "benchmark", None), benchmark_config),
            (getattr(args, "environment", None), environment_config),
            (getattr(args, "model_type", None), model_type_config),
        ):
            if name not in (None, "NAME"):
                find(name, roots)
        for file in getattr(args, "config", None) or []:
            assert roots.find(file), command


def test_commands_are_found_where_they_stand() -> None:
    text = "run `gym list` or\n\n    A=1 gym eval run --limit 3 \\\n      ++a=1\n"
    assert [shlex.split(command) for command in _commands(text)] == [
        ["gym", "eval", "run", "--limit", "3", "++a=1"],
        ["gym", "list"],
    ]


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in _pages():
        named = re.findall(r"(?:`|^    )make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= targets, page


# -- files and configs ------------------------------------------------------


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str

    @property
    def path(self) -> str | None:
        """The file that its first line says it is."""
        found = re.match(r"# ([\w./-]+/[\w.-]+\.\w+)\n", self.text)
        return found[1] if found else None


def _blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(page, text[: match.start()].count("\n") + 1, match[1], match[2]) for match in found]


ALL_BLOCKS = [block for page in _pages() for block in _blocks(page)]
FILES = [block for block in ALL_BLOCKS if block.path]
CONFIGS = [block for block in ALL_BLOCKS if block.language == "yaml"]


@pytest.fixture
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An author's folder with every file that the pages show, seen by the loader of plugins during the test."""
    for block in FILES:
        assert block.path is not None
        path = tmp_path / block.path
        path.parent.mkdir(parents=True, exist_ok=True)
        body = block.text if block.language in ("python", "yaml") else block.text.partition("\n")[2]
        path.write_text(body, encoding="utf-8")
    import agent_servers
    import resources_servers

    for package in (agent_servers, resources_servers):
        monkeypatch.setattr(package, "__path__", list(package.__path__))
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("agent_servers.", "resources_servers.")):
            del sys.modules[name]


def _compose(files: list[Path], root: Path) -> Composed:
    return compose_config(files, POLICY, roots=Roots((root, INSTALL_DIR)))


@pytest.mark.parametrize("block", CONFIGS, ids=lambda block: f"{block.page.name}:{block.line}")
def test_every_config_that_is_shown_composes_without_a_mistake(
    block: Block, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    page_file = own_root / "shown.yaml"
    page_file.write_text(block.text, encoding="utf-8")
    files = [page_file]
    if "sandbox:" in block.text and "config_paths" not in block.text:
        files.insert(0, ROOT / "resources_servers/visual_coding_opencode/configs/visual_coding_opencode.yaml")
    files.append(ROOT / "model_servers/vllm_model/configs/vllm_model.yaml")
    checked = check_composed(_compose(files, own_root))
    assert checked.run.servers["policy_model"]


def test_the_shown_benchmark_prepares_rows_that_can_be_read(own_root: Path) -> None:
    dataset = _dataset(own_root / "benchmarks/counting_dots/config.yaml", own_root, split="benchmark")
    assert dataset.script is not None
    code: dict[str, object] = {"__name__": "shown_prepare"}
    exec(compile(dataset.script.read_text(), str(dataset.script), "exec"), code)
    prepare = code["prepare"]
    assert callable(prepare)
    assert prepare(dict(dataset.dataset.prepare_args), dataset.path) == dataset.path
    tasks = list(read_dataset(dataset.path))
    assert [task.task_data["expected_answer"] for task in tasks] == ["3", "4", "5", "6", "7"]


def test_the_shown_environment_has_rows_that_its_class_can_read(own_root: Path) -> None:
    dataset = _dataset(own_root / "resources_servers/colour_names/configs/colour_names.yaml", own_root, split="example")
    found = server_class(ServerType.RESOURCES, "colour_names", Roots((own_root, INSTALL_DIR)))
    server = found(found.config_type(), _context("colour_names"))
    (task,) = read_dataset(dataset.path)
    assert server.read_task(task.task_data).colours == ["blue", "white", "red"]  # type: ignore[attr-defined]


def test_the_shown_harness_loads(own_root: Path) -> None:
    found = server_class(ServerType.AGENT, "two_looks", Roots((own_root, INSTALL_DIR)))
    assert found.__name__ == "TwoLooks"


def _dataset(config: Path, root: Path, *, split: str) -> SelectedDataset:
    policy = ROOT / "model_servers/vllm_model/configs/vllm_model.yaml"
    composed = _compose([config, policy], root)
    environments = ConfigReading(composed).run_config().environments
    (selected,) = select_datasets(environments, composed, split=split, environment=None)
    return selected


# -- routes -----------------------------------------------------------------

_ROUTE = re.compile(r"\b(GET|POST|PUT|DELETE) `(/[^`?]*)")


def _context(name: str) -> ServerContext:
    part = ServerSlice(
        name=name, type="x", implementation="x", block={}, run_token="t", state_dir="unused", url="http://127.0.0.1:1"
    )
    return ServerContext(part, HttpPool())


def _server(kind: ServerType, name: str, block: dict[str, object]) -> Server[Wire]:
    found = server_class(kind, name, Roots((INSTALL_DIR,)))
    return found(found.config_type.model_validate(block), _context(name))


def _served() -> set[tuple[str, str]]:
    """Every (method, path) of every kind of server."""
    policy = {"type": "model_servers", "name": "policy_model"}
    head = HeadSlice(
        run_token="t",
        user_token=None,
        url="http://127.0.0.1:1",
        state_dir="unused",
        servers=[],
        environments={},
        sampling={},
        config_view={},
        versions={},
        argv=[],
    )
    apps = [
        Head(head).make_app(),
        _server(ServerType.RESOURCES, "dominant_color", {}).make_app(),
        _server(ServerType.AGENT, "single_call", {"model_server": policy}).make_app(),
        _server(ServerType.MODEL, "vllm_model", {"base_url": "http://x/v1", "api_key": "k", "model": "m"}).make_app(),
    ]
    routes = [route for app in apps for route in app.routes if getattr(route, "path", "") != "/openapi.json"]
    return {
        (method, re.sub(r":path}", "}", route.path))
        for route in routes
        for method in route.methods - {"HEAD", "OPTIONS"}
    }


def test_the_rest_page_names_every_route_and_no_other() -> None:
    named = set(_ROUTE.findall((ROOT / "docs/rest.md").read_text(encoding="utf-8")))
    assert named == _served()


# -- results ----------------------------------------------------------------


def _code_words(page: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", (ROOT / page).read_text(encoding="utf-8")))


def test_the_results_page_names_every_column() -> None:
    (request,) = plan_rollouts([make_task(0)], repeats=1, environment="e")
    columns = flat_from_record(make_record(request)).keys() - make_task(0).task_data.keys()
    assert columns <= _code_words("docs/results.md")


def test_the_results_page_names_every_failure_that_reaches_a_row_or_a_log() -> None:
    assert {kind.value for kind in FailureKind} == {kind.value for kind in FAILURE_POLICY}
    assert {kind.value for kind in FailureKind} <= _code_words("docs/results.md")


def test_the_readme_names_every_file_of_a_run() -> None:
    endings = {Path(path).name for path in OutputFiles(Path("X.jsonl")).named().values()}
    assert endings <= {word.removesuffix("/") for word in _code_words("README.md")}


def test_the_config_page_names_every_option_of_a_run() -> None:
    text = (ROOT / "docs/config.md").read_text(encoding="utf-8")
    assert [name for name in RunOptions.model_fields if f"++{name}" not in text] == []


# -- words ------------------------------------------------------------------

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pages
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pages
def test_every_file_that_a_page_names_is_there(page: Path, own_root: Path) -> None:
    """Names in code that begin with one of our folders, but for what a run or a preparation makes."""
    folders = "gym_core|resources_servers|agent_servers|model_servers|benchmarks|tests|docs|sandbox_image"
    text = page.read_text(encoding="utf-8")
    named = {name for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", text) if "NAME" not in name}
    lost = [name for name in named if not any((root / name).exists() for root in (ROOT, own_root))]
    assert lost == []


_HOSTS = [
    ".".join(words) for words in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmmirror", "com"))
]
_MACHINE = re.compile(r"(?<![\w.])/(?:work|root|Users|home/(?!agent\b))/?[\w.-]+/")


def test_no_file_names_a_package_registry_or_a_folder_of_some_machine() -> None:
    folders = ("docs", "gym_core", "resources_servers", "agent_servers", "model_servers", "benchmarks", "sandbox_image")
    files = [*(p for p in ROOT.iterdir() if p.is_file()), *(p for f in folders for p in (ROOT / f).rglob("*"))]
    found = []
    for path in files:
        if path.suffix not in TEXT and path.name not in ("Makefile", "Dockerfile", "requirements.lock"):
            continue
        text = path.read_text(encoding="utf-8")
        found += [f"{_ids(path)}: {host}" for host in _HOSTS if host in text]
        found += [f"{_ids(path)}: {match}" for match in _MACHINE.findall(text)]
    assert found == []


def test_agents_md_is_a_page() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) < 60


def test_a_command_with_a_mistake_is_noticed() -> None:
    with pytest.raises(ConfigError):
        parse_overrides(["++=1"])
    with pytest.raises(SystemExit):
        build_parser(["eval", "rum"]).parse_known_args(["eval", "rum"])
