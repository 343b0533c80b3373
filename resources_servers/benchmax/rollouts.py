"""Rollouts as reward hooks see them: made of what a class is to grade, alone or among its siblings."""

import dataclasses
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from gym_core.types.rollout import RolloutRecord
from gym_core.types.wire import JsonObject
from resources_servers.benchmax.rows import PROMPT, BenchmaxTask
from resources_servers.benchmax.source import base_module
from resources_servers.benchmax.transcript import chat_messages

if TYPE_CHECKING:
    from benchmax.envs import BaseRollout


class _Graded(BaseModel):
    """The columns that a grade has."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    rollout_id: str
    """As the hooks of the rollout were told it: an episode played again has another one."""
    termination_reason: str
    rewards: dict[str, float]


def make_rollout(
    rollout_id: str, reason: str, split: str, payload: JsonObject, messages: list[JsonObject]
) -> "BaseRollout":
    """Of whichever package's class; `messages` are those after the prompt."""
    rollout: BaseRollout = base_module().BaseRollout(
        rollout_id=rollout_id,
        termination_reason=reason,
        messages=[*payload[PROMPT], *messages],
        example_args={name: value for name, value in payload.items() if name != PROMPT},
        split=split,
    )
    return rollout


def graded_siblings(records: Sequence[RolloutRecord], scorable: Set[str]) -> "list[BaseRollout | None]":
    """One a record, None for one that did not end in a way that is scored; pictures of tools as references.

    Raises ValueError for a record that this environment did not grade.
    """
    return [_sibling(record, scorable) for record in records]


def _sibling(record: RolloutRecord, scorable: Set[str]) -> "BaseRollout | None":
    details, response = _Graded.model_validate(record.verification.details), record.evidence.response
    if response is None or details.termination_reason not in scorable:
        return None
    task = BenchmaxTask.model_validate(record.task.task_data)
    messages = chat_messages(response.output, lambda url: url)
    rollout = make_rollout(details.rollout_id, details.termination_reason, task.split, task.payload, messages)
    return dataclasses.replace(rollout, rewards=details.rewards)
