"""Puzzles by image tools alone: which the scripted policy solves, within which budget, and what it does otherwise."""

import pytest

from benchmarks.visual_puzzles_opencode.puzzles.contract import Puzzle, puzzle_rng
from benchmarks.visual_puzzles_opencode.puzzles.registry import SUBTYPES
from gym_core.judging.answers import extract_answer
from gym_core.judging.matching import match
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.players.puzzle_tools import PUZZLE_TOOLS
from model_servers.scripted_model.policy import next_turn
from tests.unit.scripted_model.tool_play import TOOLS, ToolPlay, question_with_picture

SOLVED = {
    "Count Clusters": (1, 2, 3),
    "Count Same Patterns": (1, 2, 3),
    "Find the different": (1, 2),
    "Find the same": (1, 2, 3),
    "Find the shadow": (1,),
    "Mirroring Patterns": (1,),
    "Connect the lines": (1,),
}
"""Levels at which it is right on all of the seeds below."""
CASES = [(subtype, level) for subtype, levels in SOLVED.items() for level in levels]
MAX_CALLS, MAX_TURNS = 24, 12
"""Of the benchmark `visual_puzzles_tools`."""


def make(subtype: str, seed: int, level: int) -> Puzzle:
    return SUBTYPES[subtype].generate(puzzle_rng(subtype, seed, level), level)


def asked(puzzle: Puzzle) -> str:
    options = [f"({chr(ord('A') + index)}) {option}" for index, option in enumerate(puzzle.options)]
    return "\n".join([puzzle.question, *options])


def is_right(puzzle: Puzzle, text: str) -> bool:
    return match(puzzle.answer, extract_answer(text).answer or "", puzzle.answer_kind.value, puzzle.options).equal


@pytest.mark.slow
@pytest.mark.parametrize(("subtype", "level"), CASES)
def test_it_is_right_by_what_tools_tell_and_keeps_within_the_budget(subtype: str, level: int) -> None:
    for seed in range(2):
        puzzle = make(subtype, seed, level)
        play = ToolPlay([puzzle.image], asked(puzzle))
        assert is_right(puzzle, play.play())
        assert 0 < len(play.names) <= MAX_CALLS
        assert len(play.turns) <= MAX_TURNS


@pytest.mark.slow
@pytest.mark.parametrize(("subtype", "level"), CASES)
def test_it_is_right_on_nearly_all_of_many(subtype: str, level: int) -> None:
    puzzles = [make(subtype, seed, level) for seed in range(100, 120)]
    assert sum(is_right(puzzle, ToolPlay([puzzle.image], asked(puzzle)).play()) for puzzle in puzzles) >= 18


@pytest.mark.parametrize("subtype", sorted(set(SUBTYPES) - set(SOLVED)))
def test_of_other_puzzles_it_says_that_it_guesses(subtype: str) -> None:
    puzzle = make(subtype, 0, 1)
    play = ToolPlay([puzzle.image], asked(puzzle))
    assert "This is a guess." in play.play()
    assert play.names == []


def test_without_the_tools_it_needs_it_guesses() -> None:
    puzzle = make("Count Clusters", 0, 1)
    play = ToolPlay([puzzle.image], asked(puzzle), tools=TOOLS - {"components"})
    assert play.play().endswith("\\boxed{1}")


def test_tools_that_tell_nothing_of_use_end_in_a_guess() -> None:
    puzzle = make("Count Same Patterns", 0, 1)
    messages = [question_with_picture(asked(puzzle)), ChatMessage(role="tool", content="Error: no")]
    assert "did not tell me enough" in next_turn(messages, TOOLS).text


def test_every_player_knows_a_puzzle_and_needs_tools_that_there_are() -> None:
    questions = [asked(make(subtype, 0, 1)) for subtype in SOLVED]
    for player in PUZZLE_TOOLS:
        assert sum(player.question in question for question in questions) == 1
        assert player.needs <= TOOLS
