"""Long texts in steps: what is shown at first, and where the rest can be had."""

from gym_core.viewer.types import Clip, TextSlice

MAX_SLICE = 50_000
"""Characters of one further step."""


class Texts:
    """The texts of one page, in the order in which they were clipped: equal input gives equal ids."""

    def __init__(self, prefix: str, *, limit: int) -> None:
        """`limit`: characters that a clip shows."""
        self._prefix = prefix
        self._limit = limit
        self._texts: list[str] = []

    def clip(self, text: str) -> Clip:
        if len(text) <= self._limit:
            return Clip(text=text, length=len(text), id="")
        self._texts.append(text)
        return Clip(text=text[: self._limit], length=len(text), id=f"{self._prefix}{len(self._texts) - 1}")

    def slice(self, id: str, start: int) -> TextSlice:
        """Raises KeyError for an id that no clip had."""
        number = id.removeprefix(self._prefix)
        if not (id.startswith(self._prefix) and number.isascii() and number.isdigit()):
            raise KeyError(id)
        try:
            text = self._texts[int(number)]
        except (IndexError, ValueError):
            raise KeyError(id) from None
        return TextSlice(start=start, text=text[start : start + MAX_SLICE], length=len(text))
