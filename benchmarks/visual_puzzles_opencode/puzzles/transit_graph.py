"""A transit network on a lattice: lines that bend by 45 degrees, stations on them, and the ways between stations.

Lines share no track. Where two lines share a lattice point there is always a station, and two diagonals never cross
between points, so a line can be left for another at stations only. Nodes are (column, row).
"""

import random
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import pairwise

Node = tuple[int, int]
Track = tuple[Node, Node]

DIRECTIONS: tuple[Node, ...] = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
"""Eight directions in the order of their angle; a line turns to a neighbour in this ring."""


@dataclass(frozen=True)
class NetworkSize:
    columns: int
    rows: int
    lines: int
    shortest: int
    longest: int
    """Bounds of the nodes on a line."""
    bare_share: float
    """Of the inner nodes that belong to one line, how many have no station."""


@dataclass(frozen=True)
class Network:
    lines: list[list[Node]]
    stations: list[Node]
    """In reading order."""

    def neighbours(self) -> dict[Node, set[Node]]:
        """Stations that a ride without a stop connects."""
        is_station = set(self.stations)
        joined: dict[Node, set[Node]] = defaultdict(set)
        for line in self.lines:
            stops = [node for node in line if node in is_station]
            for one, other in pairwise(stops):
                joined[one].add(other)
                joined[other].add(one)
        return joined

    def directions(self, node: Node) -> set[Node]:
        """In which of the eight directions tracks leave a node."""
        tracks = [track for line in self.lines for track in pairwise(line) if node in track]
        ends = [end if start == node else start for start, end in tracks]
        return {(column - node[0], row - node[1]) for column, row in ends}


@dataclass(frozen=True)
class Way:
    stations: list[Node]
    """From the one end to the other, both included."""

    @property
    def rides(self) -> int:
        return len(self.stations) - 1


def build_network(rng: random.Random, size: NetworkSize) -> Network:
    """Every line after the first meets the others in at least two nodes, so there is more than one way round."""
    while True:
        lines: list[list[Node]] = []
        for _ in range(80):
            line = _draw_line(rng, size, lines)
            if line is not None:
                lines.append(line)
            if len(lines) == size.lines:
                return Network(lines, _place_stations(rng, size, lines))


def shortest_ways(network: Network, start: Node) -> list[Way]:
    """The shortest way to every station to which there is only one of that length."""
    neighbours = network.neighbours()
    distance, choices = {start: 0}, {start: 1}
    before: dict[Node, Node] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other in sorted(neighbours[node]):
            if other not in distance:
                distance[other], choices[other], before[other] = distance[node] + 1, 0, node
                queue.append(other)
            if distance[other] == distance[node] + 1:
                choices[other] += choices[node]
    return [Way(_trail(before, node)) for node in distance if node != start and choices[node] == 1]


def _trail(before: dict[Node, Node], node: Node) -> list[Node]:
    nodes = [node]
    while nodes[-1] in before:
        nodes.append(before[nodes[-1]])
    return nodes[::-1]


def _draw_line(rng: random.Random, size: NetworkSize, lines: list[list[Node]]) -> list[Node] | None:
    """A line that fits to those drawn, or None when this try did not."""
    used = {track for line in lines for start, end in pairwise(line) for track in ((start, end), (end, start))}
    visits = [node for line in lines for node in line]
    length = rng.randint(size.shortest, size.longest)
    line = [(rng.randrange(size.columns), rng.randrange(size.rows))]
    heading = rng.randrange(8)
    while len(line) < length:
        turns = [
            turn
            for turn in (0, 0, 0, 1, -1)
            if _is_free(size, (line[-1], _step(line[-1], heading + turn)), used)
            and _step(line[-1], heading + turn) not in line
            and visits.count(_step(line[-1], heading + turn)) < 2
        ]
        if not turns:
            return None
        heading += rng.choice(turns)
        line.append(_step(line[-1], heading))
        used.add((line[-2], line[-1]))
    shared = sum(node in visits for node in line)
    return line if not lines or 2 <= shared <= length // 2 else None


def _step(node: Node, heading: int) -> Node:
    column, row = DIRECTIONS[heading % 8]
    return node[0] + column, node[1] + row


def _is_free(size: NetworkSize, track: Track, used: set[Track]) -> bool:
    """On the lattice, not used, and not across a used diagonal of the same cell."""
    (column, row), (column_end, row_end) = track
    crossing = ((column, row_end), (column_end, row))
    is_inside = 0 <= column_end < size.columns and 0 <= row_end < size.rows
    return is_inside and not {track, track[::-1], crossing, crossing[::-1]} & used


def _place_stations(rng: random.Random, size: NetworkSize, lines: list[list[Node]]) -> list[Node]:
    visits = [node for line in lines for node in line]
    ends = {node for line in lines for node in (line[0], line[-1])}
    stations = [
        node
        for node in sorted(set(visits))
        if node in ends or visits.count(node) > 1 or rng.random() >= size.bare_share
    ]
    return sorted(stations, key=lambda node: (node[1], node[0]))
