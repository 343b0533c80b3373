"""The tasks of a run: from a prepared dataset into the run's own files."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

from gym_core.capture.images import AssetStore, externalize, image_urls, parse_reference
from gym_core.datasets.prepared import assets_of, check_picture, check_prompt, read_dataset
from gym_core.errors import ConfigError, InvalidTask
from gym_core.launch.plan import DatasetEntry, EnvironmentEntry
from gym_core.types.flat_row import task_from_flat
from gym_core.types.session import Sampling
from gym_core.types.task import Task


def choose_dataset(environment: EnvironmentEntry, split: str) -> DatasetEntry:
    """The dataset of a split. Raises ConfigError naming what there is."""
    found = [dataset for dataset in environment.datasets if dataset.type == split]
    if len(found) != 1:
        there = ", ".join(f"{d.name} ({d.type})" for d in environment.datasets) or "none"
        what = f"environment {environment.name!r}: {len(found)} datasets of split {split!r}"
        raise ConfigError(f"{what}; there are: {there}")
    return found[0]


def choose_environment(
    environments: Mapping[str, EnvironmentEntry], name: str | None, split: str | None
) -> EnvironmentEntry:
    """The environment of that name; without a name the only one there is, or the only one with a dataset of the split.

    Raises InvalidTask naming what there is.
    """
    if name is not None:
        if name not in environments:
            raise InvalidTask(f"no environment {name!r}; there are: {', '.join(sorted(environments)) or 'none'}")
        return environments[name]
    found = [e for e in environments.values() if split is None or any(d.type == split for d in e.datasets)]
    if len(found) != 1:
        names = ", ".join(sorted(e.name for e in found)) or "none"
        what = "environments" if split is None else f"environments with a dataset of split {split!r}"
        raise InvalidTask(f"{what}: {names}; say which with ++environment=")
    return found[0]


def load_tasks(
    dataset: DatasetEntry, assets: AssetStore, *, limit: int | None, sampling: Sampling, start: int = 0
) -> list[Task]:
    """As `read_tasks`, and their images in the run's assets folder."""
    tasks = read_tasks(dataset, limit=limit, sampling=sampling, start=start)
    source = assets_of(Path(dataset.path))
    for task in tasks:
        for url in image_urls(task.responses_create_params):
            copy_asset(source, assets, parse_reference(url))
    return tasks


def read_tasks(dataset: DatasetEntry, *, limit: int | None, sampling: Sampling, start: int = 0) -> list[Task]:
    """A dataset's tasks from `start` on, sampling defaults filled in. Raises ConfigError, also when there is none."""
    path = Path(dataset.path)
    if not path.is_file():
        raise ConfigError(f"dataset {dataset.name!r}: no file {path}; `gym eval prepare` makes it")
    end = None if limit is None else start + limit
    found = itertools.islice(_read_tasks(path, dataset.name), start, end)
    tasks = [with_sampling(task, sampling) for task in found]
    if not tasks:
        after = f" from {start} on" if start else ""
        raise ConfigError(f"dataset {dataset.name!r}: {path} holds no task{after}")
    return tasks


def row_task(row: object, assets: AssetStore, *, taskset: str, index: int, sampling: Sampling) -> Task:
    """The task of a flat row that somebody sent, its pictures moved into the assets folder. Blocking.

    Raises ValueError and InvalidTask for what is wrong with it.
    """
    task = task_from_flat(row, taskset=taskset, index=index)
    check_prompt(task.responses_create_params)
    inside = externalize(task.responses_create_params, assets)
    for url in image_urls(inside):
        if not assets.path(parse_reference(url)).is_file():
            raise InvalidTask(f"image {url!r} is not here: rows bring their pictures as data URLs")
        check_picture(assets.path(parse_reference(url)))
    return with_sampling(task.model_copy(update={"responses_create_params": inside}), sampling)


def _read_tasks(path: Path, taskset: str) -> Iterator[Task]:
    """Raises ConfigError for a row that is none: the data is the caller's."""
    try:
        yield from read_dataset(path, taskset=taskset)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def has_images(task: Task) -> bool:
    return bool(image_urls(task.responses_create_params))


def with_sampling(task: Task, sampling: Sampling) -> Task:
    """The task with the run's sampling where its own row says nothing."""
    body = task.responses_create_params
    missing = {k: v for k, v in sampling.model_dump(exclude_none=True).items() if getattr(body, k) is None}
    return task.model_copy(update={"responses_create_params": body.model_copy(update=missing)}) if missing else task


def override_sampling(task: Task, sampling: Sampling) -> Task:
    """The task with this sampling, whatever its own row says; None leaves a value alone."""
    update = sampling.model_dump(exclude_none=True)
    if not update:
        return task
    body = task.responses_create_params.model_copy(update=update)
    return task.model_copy(update={"responses_create_params": body})


def copy_asset(source: AssetStore, target: AssetStore, sha256: str) -> None:
    """One image from a dataset's folder to a run's: linked where the file system can, so that it costs no bytes."""
    path = target.path(sha256)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.hardlink_to(source.path(sha256))
    except FileNotFoundError:
        what = f"dataset image {sha256} is missing from {source.folder}; prepare the dataset again"
        raise ConfigError(what) from None
    except OSError:
        target.put(source.get(sha256))
