"""The subtypes by name, in BabyVision's spelling, and how many rows of each BabyVision has. A new one adds a module."""

from benchmarks.visual_puzzles_opencode.puzzles import (
    connect_the_lines,
    count_3d_blocks,
    count_clusters,
    count_same_patterns,
    cube_unfold_3d,
    find_the_different,
    find_the_same,
    find_the_shadow,
    lines_observation,
    logic_patterns,
    maze,
    metro_map,
    mirroring_patterns,
    overlay_patterns,
    paper_folding,
    pattern_and_color_completion,
    pattern_completion_2d,
    pattern_completion_3d,
    recognize_numbers_and_letters,
    reconstruction,
    rotation_patterns,
    views_3d,
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
    overlay_patterns,
    rotation_patterns,
    pattern_and_color_completion,
    pattern_completion_2d,
    find_the_same,
    recognize_numbers_and_letters,
    logic_patterns,
    find_the_shadow,
    reconstruction,
    paper_folding,
    count_3d_blocks,
    views_3d,
    cube_unfold_3d,
    pattern_completion_3d,
)

BABYVISION_ROWS: dict[str, int] = {
    "Find the different": 16,
    "Count Same Patterns": 35,
    "Count Clusters": 18,
    "Maze": 20,
    "Connect the lines": 19,
    "Lines Observation": 9,
    "Metro map": 12,
    "Mirroring Patterns": 10,
    "Find the same": 17,
    "Find the shadow": 23,
    "Reconstruction": 14,
    "2D Pattern Completion": 20,
    "Pattern and Color Completion": 20,
    "Recognize numbers and letters": 23,
    "3D Views": 27,
    "3D Cube Unfold": 12,
    "Paper Folding": 12,
    "3D Pattern Completion": 18,
    "Count 3D blocks": 22,
    "Overlay Patterns": 17,
    "Logic Patterns": 14,
    "Rotation Patterns": 10,
}
"""BabyVision's 388 rows by subtype. The order stays as it is: task ids count by it."""

_BY_NAME = {module.SUBTYPE: module for module in _MODULES}

SUBTYPES: dict[str, Subtype] = {name: _BY_NAME[name] for name in BABYVISION_ROWS if name in _BY_NAME}
"""In the order of `BABYVISION_ROWS`, whatever the order of the modules."""

DEMO_SUBTYPES: tuple[str, ...] = tuple(BABYVISION_ROWS)[:8]
"""Those that a run draws where its config asks for no others: few enough for a run of a minute."""
