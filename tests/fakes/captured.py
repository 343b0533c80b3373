"""What tests want of captures and their sequences, in one look."""

from collections.abc import Iterator
from pathlib import Path

from gym_core.capture.recorder import read_captured
from gym_core.capture.sequences import Piece, SessionSequences
from gym_core.types.model_call import ModelCall


def read_calls(path: Path) -> Iterator[ModelCall]:
    """As `read_captured`, each call whole."""
    return (call.as_model_call() for call in read_captured(path))


def pieces_of(sequences: SessionSequences) -> Iterator[Piece]:
    """Of all branches, in their order."""
    return (piece for branch in sequences.branches for piece in branch.pieces)
