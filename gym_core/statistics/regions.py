"""Where a model looked, against where the evidence is; and the order of its calls, against a reference chain. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SAME_LOOK_IOU = 0.9
"""Two looks that overlap by more are one look, made twice."""
_OVERHANG = 0.01
"""Of an image's side: so far past its edge a box is rounded; further, it is a mistake or of another unit."""


@dataclass(frozen=True)
class Region:
    """A rectangle; of one unit (pixels or fractions) in all regions that are compared. x0 < x1 and y0 < y1."""

    x0: float
    y0: float
    x1: float
    y1: float

    def __post_init__(self) -> None:
        if not (self.x0 < self.x1 and self.y0 < self.y1):
            raise ValueError(f"{self} has no area")

    @property
    def area(self) -> float:
        return (self.x1 - self.x0) * (self.y1 - self.y0)

    def overlap(self, other: "Region") -> float:
        """Area of what both cover."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        return max(0.0, width) * max(0.0, height)

    def iou(self, other: "Region") -> float:
        """In [0, 1]: what both cover as a share of what either covers."""
        both = self.overlap(other)
        return both / (self.area + other.area - both)


def parts_of_image(boxes: Iterable[tuple[float, ...]], *, width: float = 1, height: float = 1) -> list[Region]:
    """Boxes (x0, y0, x1, y1, in the unit of the sides) as fractions of the image, cut at its edges.

    Raises ValueError for one without an area, and for one that reaches past an edge by more than rounding does.
    """
    parts = []
    for box in boxes:
        x0, y0, x1, y1 = box[0] / width, box[1] / height, box[2] / width, box[3] / height
        if not all(-_OVERHANG <= edge <= 1 + _OVERHANG for edge in (x0, y0, x1, y1)):
            reach = f"x goes from 0 to {width:g} and y from 0 to {height:g}"
            raise ValueError(f"box {list(box)} reaches outside of the image, where {reach}")
        parts.append(Region(max(0.0, x0), max(0.0, y0), min(1.0, x1), min(1.0, y1)))
    return parts


@dataclass(frozen=True)
class Looks:
    """What a rollout's looks were worth. Each share is in [0, 1]; None where there is nothing to compare with."""

    calls: int
    distinct: int
    """Looks that are not near-repeats of an earlier one."""
    recall: float | None
    """Share of the evidence's area that was looked at, by all looks together. None without evidence."""
    precision: float | None
    """Share of the area that was looked at which is evidence. None without evidence or looks."""
    best_iou: float | None
    """Of any look with any piece of evidence; 0 without looks, None without evidence."""

    @property
    def duplicates(self) -> int:
        return self.calls - self.distinct


def score_looks(looks: Sequence[Region], evidence: Sequence[Region] = ()) -> Looks:
    """Of one rollout, in the order of its calls."""
    distinct: list[Region] = []
    for look in looks:
        if all(look.iou(earlier) <= SAME_LOOK_IOU for earlier in distinct):
            distinct.append(look)
    recall = precision = best = None
    if evidence:
        shared = covered_area(looks) + covered_area(evidence) - covered_area([*looks, *evidence])
        recall = _share(shared, covered_area(evidence))
        best = max((look.iou(piece) for look in looks for piece in evidence), default=0.0)
        precision = _share(shared, covered_area(looks)) if looks else None
    return Looks(len(looks), len(distinct), recall, precision, best)


def covered_area(regions: Sequence[Region]) -> float:
    """Area of the union, exact: strip by strip between neighbouring edges; n regions cost n squared."""
    edges = sorted({x for region in regions for x in (region.x0, region.x1)})
    by_top = sorted(regions, key=lambda region: region.y0)
    area = 0.0
    for left, right in zip(edges, edges[1:], strict=False):
        reached = float("-inf")
        for region in by_top:
            if region.x0 <= left and right <= region.x1 and region.y1 > reached:
                area += (right - left) * (region.y1 - max(region.y0, reached))
                reached = region.y1
    return area


@dataclass(frozen=True)
class ChainScore:
    """A chain of tool names against a reference; shares in [0, 1], 1 for two empty chains."""

    overlap: float
    """Dice coefficient of the names as multisets: which tools, whatever their order."""
    order: float
    """Dice coefficient of the longest common subsequence: which tools, in that order."""
    redundant: int
    """Calls beyond what the reference has of the same tool."""


def score_chain(chain: Sequence[str], reference: Sequence[str]) -> ChainScore:
    called, wanted = Counter(chain), Counter(reference)
    total = len(chain) + len(reference)
    if not total:
        return ChainScore(1.0, 1.0, 0)
    return ChainScore(
        overlap=2 * (called & wanted).total() / total,
        order=2 * _common_subsequence(chain, reference) / total,
        redundant=(called - wanted).total(),
    )


def _common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    lengths = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for index, other in enumerate(b, start=1):
            longest = diagonal + 1 if word == other else max(lengths[index], lengths[index - 1])
            diagonal, lengths[index] = lengths[index], longest
    return lengths[-1]


def _share(part: float, whole: float) -> float:
    """Rounding of the areas can leave a share just outside."""
    return min(1.0, max(0.0, part / whole))
