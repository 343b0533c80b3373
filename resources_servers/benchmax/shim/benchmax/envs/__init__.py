from benchmax.envs.base import BaseEnv, BaseRollout, JsonlDataset, JsonRow, Message, Messages, Tool
from benchmax.envs.dataset import Dataset
from benchmax.envs.environment import Environment
from benchmax.envs.identity import canonical_example_id
from benchmax.envs.shared_types import DatasetSplit, Example, RewardMap, RolloutAttempt, RolloutFailure

__all__ = [
    "BaseEnv",
    "BaseRollout",
    "Dataset",
    "DatasetSplit",
    "Environment",
    "Example",
    "JsonRow",
    "JsonlDataset",
    "Message",
    "Messages",
    "RewardMap",
    "RolloutAttempt",
    "RolloutFailure",
    "Tool",
    "canonical_example_id",
]
