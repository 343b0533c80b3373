"""Which token stands for a picture in a model's prompts, and how many of it a picture takes: told from prompt ids."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gym_core.types.model_call import ImageTokens

_SIDES_PX = tuple(sorted(patch * merged for patch in (14, 16) for merged in (1, 2, 3, 4)))
"""Patches of 14 or 16 pixels, alone or merged into one token by two, three or four a side."""


@dataclass(frozen=True)
class PicturePrompt:
    """The ids of a prompt with one picture, which is otherwise the prompt without."""

    size_px: tuple[int, int]
    """(width, height)"""
    ids: Sequence[int]


def find_image_tokens(without: Sequence[int], prompts: Sequence[PicturePrompt]) -> ImageTokens | None:
    """None when no one id can be told apart from the marks around a picture, or pictures leave no ids at all."""
    plain = Counter(without)
    added = [Counter(prompt.ids) - plain for prompt in prompts]
    if not added:
        return None
    everywhere = [token for token in added[0] if all(count[token] for count in added)]
    token = _placeholder({token: [count[token] for count in added] for token in everywhere})
    if token is None:
        return None
    counts = [count[token] for count in added]
    if len(set(counts)) == 1:
        return ImageTokens(token_id=token, min_tokens=counts[0], max_tokens=counts[0])
    sizes = [prompt.size_px for prompt in prompts]
    grids = [grid for side in _SIDES_PX if (grid := _Grid.fitting(side, sizes, counts))]
    if len(grids) != 1:
        return ImageTokens(token_id=token)
    (grid,) = grids
    return ImageTokens(
        token_id=token, side_px=grid.side_px, min_tokens=grid.smallest_scaled_up, max_tokens=grid.largest_scaled_down
    )


def _placeholder(counts: dict[int, list[int]]) -> int | None:
    """Of each id that every picture adds: how many of it each one adds."""
    varying = {token: sum(found) for token, found in counts.items() if len(set(found)) > 1}
    if varying:
        return max(varying, key=lambda token: varying[token])
    repeated = [token for token, found in counts.items() if found[0] > 1] or list(counts)
    return repeated[0] if len(repeated) == 1 else None


@dataclass(frozen=True)
class _Grid:
    side_px: int
    smallest_scaled_up: int | None
    """Tokens; None when no picture was small enough to be scaled up."""
    largest_scaled_down: int | None

    @classmethod
    def fitting(cls, side_px: int, sizes: Sequence[tuple[int, int]], counts: Sequence[int]) -> "_Grid | None":
        """None unless two sizes or more have just the tokens of such a grid, and the others are smaller ones with more
        tokens or larger ones with fewer, as of a model that scales them."""
        expected = [max(1, round(width / side_px)) * max(1, round(height / side_px)) for width, height in sizes]
        pairs = list(zip(expected, counts, strict=True))
        exact = {want for want, seen in pairs if want == seen}
        if len(exact) < 2:
            return None
        up = [seen for want, seen in pairs if seen > want]
        down = [seen for want, seen in pairs if seen < want]
        is_up_right = all(want < min(exact) for want, seen in pairs if seen > want)
        is_down_right = all(want > max(exact) for want, seen in pairs if seen < want)
        return cls(side_px, min(up, default=None), max(down, default=None)) if is_up_right and is_down_right else None
