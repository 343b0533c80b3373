"""Which datasets a configuration selects, readable before a policy is chosen: preparing data needs none."""

from dataclasses import dataclass
from pathlib import Path

from gym_core.config.compose import Composed
from gym_core.config.nearest import hint
from gym_core.config.reading import ConfigReading
from gym_core.config.roots import ServerType, dataset_path
from gym_core.config.schema import DatasetConfig, EnvironmentConfig
from gym_core.errors import ConfigError


@dataclass(frozen=True)
class SelectedDataset:
    environment: str
    dataset: DatasetConfig
    path: Path
    """Where its rows are, or are to be written."""
    script: Path | None
    """Its prepare script."""


def read_environments(composed: Composed) -> dict[str, EnvironmentConfig]:
    """The environments, when they and the top-level options are right; other blocks may lack what only a run needs."""
    reading = ConfigReading(composed)
    config = reading.run_config()
    blocks = {name: value for name, value in composed.values.items() if isinstance(value, dict)}
    problems = reading.problems.lines_within(name for name, value in blocks.items() if ServerType.ENVIRONMENT in value)
    if problems:
        raise ConfigError(problems)
    return config.environments


def select_datasets(
    environments: dict[str, EnvironmentConfig], composed: Composed, *, split: str | None, environment: str | None
) -> list[SelectedDataset]:
    """Datasets of this split (None: of every split) and environment (None: of each). Raises ConfigError when none."""
    chosen = [item for item in environments.values() if environment in (None, item.name)]
    if not chosen:
        raise ConfigError(f"config: environment: none is named {environment!r}{hint(str(environment), environments)}")
    selected = [
        SelectedDataset(
            environment=item.name,
            dataset=dataset,
            path=dataset_path(dataset.jsonl_fpath, dataset.prepare_script, composed.roots),
            script=_script(item, dataset, composed),
        )
        for item in chosen
        for dataset in item.datasets
        if split in (None, dataset.type)
    ]
    if not selected:
        splits = {dataset.type for item in chosen for dataset in item.datasets}
        raise ConfigError(f"config: split: no dataset of type {split!r}{hint(str(split), splits)}")
    return selected


def _script(environment: EnvironmentConfig, dataset: DatasetConfig, composed: Composed) -> Path | None:
    if dataset.prepare_script is None:
        return None
    found = composed.roots.find(dataset.prepare_script)
    if found is None or not found.is_file():
        path = f"{environment.path}.datasets"
        where = f" ({origin})" if (origin := composed.origin_of(path)) else ""
        raise ConfigError(f"config: {path}: prepare_script: no file {dataset.prepare_script!r}{where}")
    return found
