"""Which rollouts a run has to do: tasks times repeats, less what is already written. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from gym_core.errors import ConfigError
from gym_core.types.rollout import RolloutKey, RunRequest
from gym_core.types.task import Task


def plan_rollouts(
    tasks: Sequence[Task],
    *,
    repeats: int,
    environment: str,
    done: AbstractSet[RolloutKey] = frozenset(),
    attempts: Mapping[RolloutKey, int] | None = None,
    allow_twins: bool = False,
) -> list[RunRequest]:
    """Requests in repeat-major order, so that a whole first pass over the tasks comes early.

    `attempts` says how many episodes earlier runs already spent on a rollout. Two tasks of one content would share
    their rollouts' keys. A file of results refuses them with ConfigError, since a resume could not tell their rows
    apart; with `allow_twins` the second one's hash ends in "-2" and so on: a group of its own.
    """
    hashes = [task.content_hash() for task in tasks]
    if allow_twins:
        hashes = _numbered(hashes)
    else:
        _refuse_twins(tasks, hashes)
    spent = attempts or {}
    requests = []
    for repeat in range(repeats):
        for index, (task, task_hash) in enumerate(zip(tasks, hashes, strict=True)):
            key = RolloutKey(task_hash=task_hash, repeat=repeat)
            if key in done:
                continue
            requests.append(
                RunRequest(
                    key=key,
                    task_index=index,
                    task=task,
                    environment=environment,
                    rollout_id=f"t{index}-r{repeat}-{task_hash[:8]}",
                    first_attempt=spent.get(key, 0),
                )
            )
    return requests


def choose_pilot(requests: Sequence[RunRequest], count: int) -> list[RunRequest]:
    """So many of the requests, in their order: tasks spread evenly over the dataset, which is often sorted by
    category; further repeats of a task only when there are no more tasks."""
    first: dict[str, RunRequest] = {}
    for request in requests:
        first.setdefault(request.key.task_hash, request)
    firsts = list(first.values())
    if count < len(firsts):
        return [firsts[(2 * n + 1) * len(firsts) // (2 * count)] for n in range(count)]
    chosen = {request.key for request in firsts}
    return [*firsts, *(request for request in requests if request.key not in chosen)][:count]


def _numbered(hashes: Sequence[str]) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for task_hash in hashes:
        seen[task_hash] += 1
        names.append(task_hash if seen[task_hash] == 1 else f"{task_hash}-{seen[task_hash]}")
    return names


def _refuse_twins(tasks: Sequence[Task], hashes: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for index, task_hash in enumerate(hashes):
        if task_hash in first:
            a, b = first[task_hash], index
            raise ConfigError(
                f"tasks {a} ({tasks[a].id.task_id}) and {b} ({tasks[b].id.task_id}) have the same content"
            )
        first[task_hash] = index
