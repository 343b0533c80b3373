"""What the solvers earn from pixels, and that the policy's whole play earns the same."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, Puzzle, puzzle_rng
from benchmarks.visual_puzzles_opencode.puzzles.registry import SUBTYPES
from model_servers.scripted_model.chat import ChatMessage, Turn
from model_servers.scripted_model.library import solver_for, solvers
from model_servers.scripted_model.policy import next_turn
from tests.unit.scripted_model.test_policy import TOOLS, asked

BLIND = 0.4
"""No majority answer earns this much in any subtype (see the puzzles' own tests)."""

WITHOUT_SOLVER = frozenset({"3D Views", "3D Cube Unfold", "3D Pattern Completion", "Count 3D blocks", "Logic Patterns"})
"""Subtypes about which the policy guesses: no short program sees their answer in the pixels."""

every_subtype = pytest.mark.parametrize("subtype", [name for name in SUBTYPES if name not in WITHOUT_SOLVER])


def make(subtype: str, seed: int, level: int) -> Puzzle:
    return SUBTYPES[subtype].generate(puzzle_rng(subtype, seed, level), level)


def prompt(puzzle: Puzzle) -> str:
    choices = [f"({chr(ord('A') + index)}) {option}" for index, option in enumerate(puzzle.options)]
    return "\n".join([puzzle.question, *(["Choices:", *choices] if choices else [])])


def module_of(puzzle: Puzzle) -> ModuleType:
    solver = solver_for(prompt(puzzle))
    assert solver is not None
    return importlib.import_module(f"model_servers.scripted_model.solvers.{solver.name}")


def earned(subtype: str, level: int, seeds: range, folder: Path) -> float:
    """Fraction of puzzles answered right, as the sandbox would be asked; a solver that raises earns nothing."""
    right = 0
    for seed in seeds:
        puzzle = make(subtype, seed, level)
        path = folder / f"{seed}-{level}.png"
        puzzle.image.save(path)
        try:
            right += module_of(puzzle).solve(str(path), prompt(puzzle)) == puzzle.answer
        except (ValueError, IndexError, ArithmeticError):
            continue
    return right / len(seeds)


@every_subtype
def test_a_solver_earns_more_than_a_blind_guess(subtype: str, tmp_path: Path) -> None:
    assert earned(subtype, 1, range(3), tmp_path) > BLIND


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@every_subtype
def test_a_solver_earns_more_than_a_blind_guess_at_every_level(
    subtype: str, level: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    accuracy = earned(subtype, level, range(20), tmp_path)
    record_property("accuracy", accuracy)
    assert accuracy > BLIND


@every_subtype
def test_each_question_is_recognised_by_one_solver_only(subtype: str) -> None:
    for level in LEVELS:
        text = prompt(make(subtype, 0, level))
        names = [solver.name for solver in solvers() if solver.question.search(text)]
        assert names == [subtype.lower().replace(" ", "_")]


@pytest.mark.parametrize("subtype", [name for name in SUBTYPES if name in WITHOUT_SOLVER])
def test_the_policy_says_that_it_guesses_where_no_solver_knows_the_question(subtype: str) -> None:
    for level in LEVELS:
        turn = next_turn(asked(prompt(make(subtype, 0, level)), path="/workspace/image.png"), TOOLS)
        assert turn.calls == ()
        assert "This is a guess." in turn.text


@pytest.mark.slow
@every_subtype
def test_a_played_puzzle_ends_in_what_the_solver_finds(subtype: str, tmp_path: Path) -> None:
    """The policy's turns against a shell and a file reader that speak as OpenCode does."""
    puzzle = make(subtype, 1, 1)
    path = tmp_path / "image.png"
    puzzle.image.save(path)
    messages = asked(prompt(puzzle), path=str(path))
    turn = next_turn(messages, TOOLS)
    for _ in range(3):
        if not turn.calls:
            break
        messages += replies(turn)
        turn = next_turn(messages, TOOLS)
    found = module_of(puzzle).solve(str(path), prompt(puzzle))
    assert turn.text.endswith(f"\\boxed{{{found}}}")


def test_a_picture_from_before_is_not_taken_for_the_finding(tmp_path: Path) -> None:
    puzzle = make("Count Clusters", 0, 1)
    assert not hasattr(module_of(puzzle), "PICTURE")
    path = tmp_path / "image.png"
    puzzle.image.save(path)
    puzzle.image.save(tmp_path / "finding.png")
    messages = asked(prompt(puzzle), path=str(path))
    messages += replies(next_turn(messages, TOOLS))
    assert next_turn(messages, TOOLS).calls == ()


def replies(turn: Turn) -> list[ChatMessage]:
    """What the harness adds to the conversation after a turn with one call."""
    [call] = turn.calls
    called = {"id": "call_x", "function": {"name": call.name, "arguments": "{}"}}
    messages: list[object] = [{"role": "assistant", "content": turn.text, "tool_calls": [called]}]
    if call.name == "bash":
        output = run_bash(call.arguments["command"])
        messages.append({"role": "tool", "tool_call_id": "call_x", "content": output})
    else:
        assert Path(call.arguments["filePath"]).read_bytes().startswith(b"\x89PNG")
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        media = [{"type": "text", "text": "Attached media from tool result:"}, image]
        messages.append({"role": "tool", "tool_call_id": "call_x", "content": "Image read successfully"})
        messages.append({"role": "user", "content": media})
    return [ChatMessage.model_validate(message) for message in messages]


def run_bash(command: str) -> str:
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=60)
    return run.stdout + run.stderr
