"""The mistakes found in one configuration: each with its dotted path, what is wrong, and where that was written."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from gym_core.config.compose import Composed
from gym_core.config.violations import violations
from gym_core.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


class Problems:
    def __init__(self, composed: Composed) -> None:
        self._composed = composed
        self._found: list[tuple[str, str]] = [(path, text) for path, text in composed.unresolved.items() if text]

    def note(self, path: str, sentence: str) -> None:
        """Add a problem, unless it only follows from a value that is missing anyway."""
        if path in self._composed.unresolved:
            return
        where = self._composed.origin_of(path)
        self._found.append((path, f"config: {path}: {sentence}" + (f" ({where})" if where else "")))

    def validated(self, model: type[Model], fields: object, path: str) -> Model | None:
        """The fields as this class; None, with every violation noted, when they are not."""
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            for place, sentence in violations(error, model, path):
                self.note(place, sentence)
            return None

    def lines(self) -> list[str]:
        return list(dict.fromkeys(text for _, text in self._found))

    def lines_within(self, names: Iterable[str]) -> list[str]:
        """Those within these top-level blocks, and those of options, which may be misspelt names of anything."""
        within = tuple(f"{name}." for name in names)
        kept = [
            text
            for path, text in self._found
            if path.startswith(within) or ("." not in path and path not in self._composed.unresolved)
        ]
        return list(dict.fromkeys(kept))

    def lines_inside(self, names: Iterable[str]) -> list[str]:
        """Those of these top-level blocks and no others, values that they refer to included."""
        blocks = set(names)
        unresolved = self._composed.unresolved
        kept = [text for path, text in self._found if _block_of(path) in blocks]
        if any(_block_of(path) in blocks and not text for path, text in unresolved.items()):
            kept += [text for path, text in unresolved.items() if text and "." not in path]
        return list(dict.fromkeys(kept))

    def raise_if_any(self) -> None:
        if self._found:
            raise ConfigError(self.lines())


def _block_of(path: str) -> str:
    return path.partition(".")[0]
