"""`prepare_args` of a dataset's config, as its prepare script declares them."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from gym_core.config.violations import violations
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject

ArgsT = TypeVar("ArgsT", bound=BaseModel)


def read_prepare_args(owner: type[ArgsT], args: JsonObject) -> ArgsT:
    """Raises ConfigError naming every mistake and the nearest known field."""
    try:
        return owner.model_validate(args)
    except ValidationError as error:
        mistakes = violations(error, owner, "prepare_args")
        raise ConfigError([f"config: {place}: {sentence}" for place, sentence in mistakes]) from error
