"""Metro map: the least number of stations on the way between two stations of a coloured network.

The generator searches the network breadth first and keeps the ways that have no equal; `solve` reads the stations off
the drawn tracks and counts walks of growing length, so it also finds out when a shortest way is not the only one.
"""

import random
from collections import defaultdict
from itertools import pairwise

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    Point,
    draw_polyline,
    draw_ring,
    draw_text_centered,
    new_canvas,
)
from benchmarks.visual_puzzles_opencode.puzzles.transit_graph import (
    Network,
    NetworkSize,
    Node,
    Way,
    build_network,
    shortest_ways,
)

SUBTYPE = "Metro map"
CATEGORY = "Visual Tracking"

PITCH = 72
MARGIN = 56
STROKE = 7
STOP = 8
CHANGE = 10
"""Radii of the ring of a station on one line and of one where lines meet."""

SIZES = {
    1: NetworkSize(6, 4, 3, 5, 7, bare_share=0.0),
    2: NetworkSize(8, 6, 5, 6, 10, bare_share=0.2),
    3: NetworkSize(11, 8, 7, 8, 13, bare_share=0.25),
}
RIDES = {1: range(2, 7), 2: range(3, 9), 3: range(5, 12)}
LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"
DIGITS = "23456789"
"""Neither I nor O nor Q, neither 0 nor 1: no two names look alike."""

LABEL_PLACES: tuple[tuple[Node, tuple[Node, ...]], ...] = (
    ((1, 1), ((1, 1),)),
    ((1, -1), ((1, -1),)),
    ((-1, 1), ((-1, 1),)),
    ((-1, -1), ((-1, -1),)),
    ((1, 0), ((1, -1), (1, 0), (1, 1))),
    ((-1, 0), ((-1, -1), (-1, 0), (-1, 1))),
)
"""Where a name may stand, and the directions in which no track may then leave the station."""


def generate(rng: random.Random, level: int) -> Puzzle:
    network, way = _draw_up(rng, level)
    names = _names(rng, network, level)
    start, end = (names[way.stations[0]], names[way.stations[-1]])
    counts_ends = rng.random() < 0.5
    return Puzzle(
        image=_render(rng, network, names, SIZES[level]),
        question=_question(start, end, counts_ends),
        answer=str(way.rides + 1 if counts_ends else way.rides - 1),
        answer_kind=AnswerKind.INT,
        roi=tuple((x - 36, y - 36, x + 36, y + 36) for x, y in map(_pixel, way.stations)),
        structure={
            "tracks": [[list(_pixel(node)) for node in line] for line in network.lines],
            "stations": {names[node]: list(_pixel(node)) for node in network.stations},
            "from": start,
            "to": end,
            "counts_ends": counts_ends,
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Let walks grow ride by ride until one arrives. Raises ValueError where several arrive at once, or none ever."""
    stations: dict[Point, str] = {(x, y): name for name, (x, y) in puzzle.structure["stations"].items()}
    rides: dict[str, set[str]] = defaultdict(set)
    for track in puzzle.structure["tracks"]:
        stops = [stations[x, y] for x, y in track if (x, y) in stations]
        for one, other in pairwise(stops):
            rides[one].add(other)
            rides[other].add(one)
    walks = {puzzle.structure["from"]: 1}
    for length in range(1, len(stations)):
        grown: dict[str, int] = defaultdict(int)
        for name, count in walks.items():
            for other in rides[name]:
                grown[other] += count
        walks = grown
        if arrived := walks.get(puzzle.structure["to"], 0):
            if arrived > 1:
                raise ValueError(f"metro map: {arrived} shortest ways of {length} rides, not 1")
            return str(length + 1 if puzzle.structure["counts_ends"] else length - 1)
    raise ValueError("metro map: no way between the two stations")


def _question(start: str, end: str, counts_ends: bool) -> str:
    counting = f"counting both {start} and {end}" if counts_ends else f"counting neither {start} nor {end}"
    return (
        "In this metro map every ring is a station with its name beside it; a bend without a ring is no station. You "
        f"travel along the lines from station {start} to station {end}, stop at every station on the way, and may "
        "change lines at any station where they meet. How many stations are there on the way with the fewest "
        f"stations, {counting}? Answer with an integer."
    )


def _draw_up(rng: random.Random, level: int) -> tuple[Network, Way]:
    """A network whose names all find a place, and a way that leads over more than one line where the level asks."""
    rides = rng.choice(RIDES[level])
    while True:
        network = build_network(rng, SIZES[level])
        if not all(_label_place(network, station) for station in network.stations):
            continue
        ways = [
            way
            for start in network.stations
            for way in shortest_ways(network, start)
            if way.rides == rides and not any({*way.stations} <= {*line} for line in network.lines)
        ]
        if ways:
            return network, rng.choice(ways)


def _names(rng: random.Random, network: Network, level: int) -> dict[Node, str]:
    pool = list(LETTERS) if level == 1 else [letter + digit for letter in LETTERS for digit in DIGITS]
    return dict(zip(network.stations, rng.sample(pool, len(network.stations)), strict=True))


def _pixel(node: Node) -> Point:
    return MARGIN + node[0] * PITCH, MARGIN + node[1] * PITCH


def _label_place(network: Network, station: Node) -> Node | None:
    """On which side the name stands; None where tracks leave no room."""
    taken = network.directions(station)
    return next((place for place, kept_free in LABEL_PLACES if not taken & {*kept_free}), None)


def _render(rng: random.Random, network: Network, names: dict[Node, str], size: NetworkSize) -> Image.Image:
    img = new_canvas(2 * MARGIN + (size.columns - 1) * PITCH, 2 * MARGIN + (size.rows - 1) * PITCH)
    colors = rng.sample(sorted(PALETTE), size.lines)
    for line, color in zip(network.lines, colors, strict=True):
        draw_polyline(img, [_pixel(node) for node in line], STROKE, PALETTE[color])
    visits = [node for line in network.lines for node in line]
    for station, name in names.items():
        draw_ring(img, _pixel(station), CHANGE if visits.count(station) > 1 else STOP, 3, INK)
        _draw_name(img, _pixel(station), name, _label_place(network, station))
    return img


def _draw_name(img: Image.Image, center: Point, name: str, place: Node | None) -> None:
    if place is None:
        raise ValueError(f"metro map: no room for the name {name!r}")
    width = 6 * len(name) - 1
    reach = CHANGE + 5 + width if place[1] == 0 else CHANGE + width
    draw_text_centered(img, (center[0] + place[0] * reach, center[1] + place[1] * 17), name, 2)
