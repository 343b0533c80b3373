import argparse
import importlib
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from gym_core.cli.command_line import build_parser
from gym_core.cli.main import main
from gym_core.cli.selection import Selection
from gym_core.config.blocks import CheckedConfig
from gym_core.launch.listeners import external_urls
from tests.unit.config.house import House

COMMANDS = [
    "eval prepare",
    "eval run",
    "eval summary",
    "eval compare",
    "eval rejudge",
    "eval replay",
    "env start",
    "env status",
    "serve",
    "view",
    "config show",
    "doctor",
    "export",
    "list",
    "sandbox build",
    "sandbox check",
    "sandbox list",
    "sandbox sweep",
]


def parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    subactions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not subactions:
        yield name.strip(), parser
    for action in subactions:
        for word, sub in action.choices.items():
            yield from parsers(sub, f"{name} {word}")


def test_these_are_the_commands() -> None:
    found = dict(parsers(build_parser())) | dict(parsers(build_parser(["sandbox"])))
    assert sorted(name for name in found if name != "sandbox") == sorted(COMMANDS)


@pytest.mark.parametrize("command", ["", "eval", "env", "config", *COMMANDS])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert "example:" in text
    assert f"gym {command}".strip() in text.partition("example:")[2]


def test_the_example_of_serve_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--help"]) == 0
    example = capsys.readouterr().out.partition("example:")[2].replace("\\\n", " ")
    export, command = (shlex.split(line, comments=True) for line in example.strip().splitlines())
    assert export[1].startswith("GYM_RUN_TOKEN=")
    served: list[tuple[str, str | None, int | None]] = []

    def serve(checked: CheckedConfig, name: str, *, host: str | None, port: int | None) -> int:
        assert external_urls(checked) == {name: f"http://{host}:{port}"}
        served.append((name, host, port))
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLICY_API_KEY", "sk-key")
    monkeypatch.setattr("gym_core.launch.child.serve_instance", serve)
    assert main(command[1:]) == 0
    assert served == [("policy_model", "0.0.0.0", 8100)]


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gym {version('visual-agent-gym')}\n"


def test_every_handler_exists() -> None:
    for name, parser in parsers(build_parser()):
        if name != "sandbox":
            module, _, function = str(parser.get_default("handler")).partition(":")
            assert callable(getattr(importlib.import_module(module), function)), name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: COMMAND"),
        (["evla", "run"], "invalid choice: 'evla'"),
        (["eval", "run", "--benchmrk", "x"], "unknown flag '--benchmrk'; did you mean '--benchmark'?"),
        (["eval", "run", "--bench", "x"], "did you mean '--benchmark'?"),
        (["eval", "run", "--limit", "many"], "invalid int value: 'many'"),
        (["list", "models", "++a=1"], "unexpected '++a'"),
        (["list", "planets"], "invalid choice: 'planets'"),
        (["eval", "run", "--config", "no.yaml", "word"], "'word' is not an override"),
        (["eval", "run", "++key=[sk-secret", "--benchmark", "x"], "no benchmark 'x'"),
        (["eval", "prepare"], "nothing is selected"),
        (["config", "show", "--search-dir", "no/where", "--benchmark", "x"], "--search-dir 'no/where' is not a folder"),
    ],
)
def test_a_mistake_in_usage_ends_with_2_and_says_what_is_wrong(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert not list(tmp_path.glob("state/*"))
    assert "Traceback" not in captured.err
    assert "sk-secret" not in captured.err


def test_overrides_may_stand_anywhere_and_flags_come_before_them() -> None:
    parser = build_parser()
    line = "eval run ++a=1 --benchmark b --limit 5 +b.c=2 --output o.jsonl --no-resume c=3 --num-repeats 2"
    words = line.split()
    args, rest = parser.parse_known_args(words)
    args.overrides = rest
    selection = Selection.of(args)
    assert selection.benchmark == "b"
    assert selection.overrides == (
        "++limit=5",
        "++num_repeats=2",
        "++resume=false",
        '++output_jsonl_fpath="o.jsonl"',
        "++a=1",
        "+b.c=2",
        "c=3",
    )


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("gym_core.cli.listing.list_command", interrupted)
    assert main(["list"]) == 130
    assert "cancelled" in capsys.readouterr().err


def test_an_interrupt_in_the_first_moment_ends_with_130_too() -> None:
    code = """
import signal, sys
from gym_core.cli.main import main

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == "gym_core.cli.command_line":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
sys.exit(main(["list"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "gym: cancelled\n")


def test_an_interrupt_while_servers_warm_up_leaves_nothing(
    furnished: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gym_core.launch.warmup.start_nursery", interrupted)
    assert main(["eval", "run", "--benchmark", "puzzles"]) == 130
    assert not list(furnished.folder.glob("state/*"))


@pytest.mark.parametrize("command", ["eval run", "env start"])
def test_a_state_folder_that_cannot_be_made_is_named(
    command: str, furnished: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (furnished.folder / "file").write_text("")
    monkeypatch.setenv("GYM_STATE_DIR", str(furnished.folder / "file" / "state"))
    assert main([*command.split(), "--benchmark", "puzzles"]) == 2
    message = capsys.readouterr().err
    assert message.startswith(
        f"GYM_STATE_DIR: in '{furnished.folder}/file/state' no folder for logs can be made: Not a"
    )
    assert len(message.splitlines()) == 1


def test_help_loads_nothing_heavy() -> None:
    heavy = {"pydantic", "omegaconf", "aiohttp", "fastapi", "rich", "numpy", "yaml", "asyncio"}
    code = (
        "import sys; from gym_core.cli.main import main; main(['--help']);"
        f"loaded = {heavy!r} & set(sys.modules); sys.exit(str(sorted(loaded)) if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
