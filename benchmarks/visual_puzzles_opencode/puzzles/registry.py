"""The subtypes by name, in BabyVision's spelling. A new one is a module and a line here, at the end: task ids count."""

from benchmarks.visual_puzzles_opencode.puzzles import (
    connect_the_lines,
    count_clusters,
    count_same_patterns,
    find_the_different,
    lines_observation,
    maze,
    metro_map,
    mirroring_patterns,
)
from benchmarks.visual_puzzles_opencode.puzzles.contract import Subtype

_MODULES: tuple[Subtype, ...] = (
    find_the_different,
    count_same_patterns,
    count_clusters,
    maze,
    connect_the_lines,
    lines_observation,
    metro_map,
    mirroring_patterns,
)

SUBTYPES: dict[str, Subtype] = {module.SUBTYPE: module for module in _MODULES}
