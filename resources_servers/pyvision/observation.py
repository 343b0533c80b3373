"""What a model reads of an execution, in PyVision's words: a text, and each picture between tags that name it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

RAN = "Text Result"
"""How the observation of code that was executed begins, and no other one's."""
_WELL = f"{RAN}:"
TROUBLED = f"{RAN} (the code did not run to its end):"
_IMAGES = "Image Result:"
NOTHING = "(nothing was printed)"


@dataclass(frozen=True)
class Observation:
    """Of one execution."""

    text: str
    pictures: Sequence[bytes]
    is_whole: bool
    """False where the code raised or was stopped."""
    notes: Sequence[str] = ()
    """Sentences for the model."""

    def parts(self, first: int) -> list[str | bytes]:
        """Texts and pictures in order; the pictures are `image_clue_k` from k = `first` on."""
        lines = [_WELL if self.is_whole else TROUBLED, self.text.rstrip("\n") or NOTHING, *self.notes]
        parts: list[str | bytes] = []
        for index, picture in enumerate(self.pictures):
            lines += [_IMAGES] if index == 0 else []
            name = clue_name(first + index)
            parts += ["\n".join([*lines, f"<{name}>"]), picture]
            lines = [f"</{name}>"]
        return [*parts, "\n".join(lines)]


def clue_name(index: int) -> str:
    """Of a picture, in the prompt, in observations and in the runtime alike."""
    return f"image_clue_{index}"
