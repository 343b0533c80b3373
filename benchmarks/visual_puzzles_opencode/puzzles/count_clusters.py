"""Count Clusters: discs that touch make a group; how many groups are there."""

import random
from dataclasses import dataclass

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    PALETTE,
    RULE,
    Color,
    draw_disc,
    draw_frame,
    new_canvas,
)

SUBTYPE = "Count Clusters"
CATEGORY = "Fine-grained Discrimination"

_MARGIN_PX = 20
_TRIES_PER_DISC = 40


@dataclass(frozen=True)
class _Layout:
    side_px: int
    groups: tuple[int, int]
    discs_per_group: tuple[int, int]
    radii_px: tuple[int, int]
    gap_px: int
    """Paper between discs of different groups, at the least."""


_LAYOUT = {
    1: _Layout(side_px=520, groups=(5, 14), discs_per_group=(2, 6), radii_px=(16, 16), gap_px=18),
    2: _Layout(side_px=620, groups=(10, 24), discs_per_group=(3, 10), radii_px=(12, 16), gap_px=10),
    3: _Layout(side_px=720, groups=(16, 40), discs_per_group=(4, 16), radii_px=(9, 14), gap_px=6),
}


@dataclass(frozen=True)
class _Disc:
    x: int
    y: int
    radius: int
    group: int


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in the number and length of groups and the gaps between; from level 2 on colours are mixed."""
    layout = _LAYOUT[level]
    discs = _place_groups(rng, layout, rng.randint(*layout.groups))
    side = layout.side_px + 2 * _MARGIN_PX
    img = new_canvas(side, side)
    draw_frame(img, (4, 4, side - 4, side - 4), RULE, width=2)
    colors: list[Color] = list(PALETTE.values()) if level > 1 else [rng.choice(list(PALETTE.values()))]
    rng.shuffle(discs)
    for disc in discs:
        draw_disc(img, (disc.x, disc.y), disc.radius, rng.choice(colors))
    ignored = " whatever their colours," if level > 1 else ""
    return Puzzle(
        image=img,
        question=(
            f"Discs that touch or overlap belong to the same cluster,{ignored} and so do discs that are linked through "
            "other discs. How many separate clusters of discs are there in the picture? Answer with one number."
        ),
        answer=str(len({disc.group for disc in discs})),
        answer_kind=AnswerKind.INT,
        roi=((_MARGIN_PX, _MARGIN_PX, side - _MARGIN_PX, side - _MARGIN_PX),),
        structure={"discs": [[disc.x, disc.y, disc.radius] for disc in discs]},
    )


def solve(puzzle: Puzzle) -> str:
    """Flood from disc to disc: two of them touch when their centres are no further apart than their radii together."""
    waiting = [tuple(disc) for disc in puzzle.structure["discs"]]
    clusters = 0
    while waiting:
        clusters += 1
        front = [waiting.pop()]
        while front:
            x, y, radius = front.pop()
            near = [d for d in waiting if (d[0] - x) ** 2 + (d[1] - y) ** 2 <= (d[2] + radius) ** 2]
            waiting = [d for d in waiting if d not in near]
            front += near
    return str(clusters)


def _place_groups(rng: random.Random, layout: _Layout, groups: int) -> list[_Disc]:
    """Grow one group after another; a group for which no free place is found is left out."""
    discs: list[_Disc] = []
    for group in range(groups):
        seed = _free_disc(rng, layout, discs, group)
        if seed is None:
            continue
        discs.append(seed)
        for _ in range(rng.randint(*layout.discs_per_group) - 1):
            own = [disc for disc in discs if disc.group == group]
            grown = _grown_disc(rng, layout, discs, own[-1] if rng.random() < 0.85 else rng.choice(own))
            if grown is not None:
                discs.append(grown)
    return discs


def _free_disc(rng: random.Random, layout: _Layout, discs: list[_Disc], group: int) -> _Disc | None:
    radius = rng.randint(*layout.radii_px)
    low, high = _MARGIN_PX + radius, _MARGIN_PX + layout.side_px - radius
    for _ in range(_TRIES_PER_DISC):
        disc = _Disc(rng.randint(low, high), rng.randint(low, high), radius, group)
        if _is_clear(disc, layout, discs):
            return disc
    return None


def _grown_disc(rng: random.Random, layout: _Layout, discs: list[_Disc], parent: _Disc) -> _Disc | None:
    """A disc that overlaps its parent by a quarter to two thirds of the smaller radius, clear of all other groups."""
    radius = rng.randint(*layout.radii_px)
    smaller = min(radius, parent.radius)
    farthest, nearest = parent.radius + radius - smaller // 4, parent.radius + radius - 2 * smaller // 3
    low, high = _MARGIN_PX + radius, _MARGIN_PX + layout.side_px - radius
    for _ in range(_TRIES_PER_DISC):
        dx, dy = rng.randint(-farthest, farthest), rng.randint(-farthest, farthest)
        disc = _Disc(parent.x + dx, parent.y + dy, radius, parent.group)
        is_linked = nearest**2 <= dx**2 + dy**2 <= farthest**2
        is_inside = low <= disc.x <= high and low <= disc.y <= high
        if is_linked and is_inside and _is_clear(disc, layout, discs):
            return disc
    return None


def _is_clear(disc: _Disc, layout: _Layout, discs: list[_Disc]) -> bool:
    return all(
        (disc.x - other.x) ** 2 + (disc.y - other.y) ** 2 >= (disc.radius + other.radius + layout.gap_px) ** 2
        for other in discs
        if other.group != disc.group
    )
