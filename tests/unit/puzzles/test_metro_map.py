"""Metro map: one shortest way, names that belong to their stations, and pixels that suffice."""

import dataclasses
from itertools import pairwise

import pytest

from benchmarks.visual_puzzles_opencode.puzzles import metro_map
from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS
from benchmarks.visual_puzzles_opencode.puzzles.transit_graph import Network, shortest_ways
from tests.unit.puzzles.test_visual_tracking import make


def test_the_question_says_whether_the_ends_count() -> None:
    seen = set()
    for seed in range(12):
        puzzle = make("Metro map", seed, 2)
        counts_ends = puzzle.structure["counts_ends"]
        assert ("counting both" in puzzle.question, "counting neither" in puzzle.question) == (
            counts_ends,
            not counts_ends,
        )
        other = dataclasses.replace(puzzle, structure=puzzle.structure | {"counts_ends": not counts_ends})
        assert int(metro_map.solve(other)) - int(puzzle.answer) == (-2 if counts_ends else 2)
        seen.add(counts_ends)
    assert seen == {True, False}


def test_lines_share_no_track_and_meet_at_stations_only() -> None:
    for level in LEVELS:
        for seed in range(8):
            structure = make("Metro map", seed, level).structure
            lines = [[(x, y) for x, y in line] for line in structure["tracks"]]
            tracks = [frozenset(track) for line in lines for track in pairwise(line)]
            assert len(tracks) == len(set(tracks))
            middles = [tuple(sum(side) for side in zip(*track, strict=True)) for track in tracks]
            assert len(middles) == len(set(middles)), "two diagonals cross between points"
            nodes = [node for line in lines for node in line]
            stations = {(x, y) for x, y in structure["stations"].values()}
            assert {node for node in nodes if nodes.count(node) > 1} <= stations


def test_maps_grow_with_the_level() -> None:
    sizes = [max(len(make("Metro map", seed, level).structure["stations"]) for seed in range(5)) for level in LEVELS]
    assert sizes[0] < sizes[1] < sizes[2]


def test_a_station_with_two_ways_of_one_length_is_not_asked_for() -> None:
    square = Network(
        lines=[[(0, 0), (1, 0), (1, 1)], [(0, 0), (0, 1), (1, 1)]], stations=[(0, 0), (1, 0), (0, 1), (1, 1)]
    )
    assert {way.stations[-1] for way in shortest_ways(square, (0, 0))} == {(1, 0), (0, 1)}


def test_two_shortest_ways_are_refused() -> None:
    puzzle = make("Metro map", 0, 1)
    corners = {"A": [0, 0], "B": [9, 0], "C": [0, 9], "D": [9, 9]}
    tracks = [[[0, 0], [9, 0], [9, 9]], [[0, 0], [0, 9], [9, 9]]]
    square = {"tracks": tracks, "stations": corners, "from": "A", "to": "D", "counts_ends": True}
    with pytest.raises(ValueError, match="2 shortest ways of 2 rides"):
        metro_map.solve(dataclasses.replace(puzzle, structure=square))
