"""NeMo RL's way in: an object with the `run_examples` that its NeMo Gym environment calls, played by a gym's head.

NeMo RL makes a collector (`RolloutCollectionHelper` of NeMo Gym) and calls
`run_examples(examples=..., head_server_config=...)` inside its event loop; it awaits what comes out, in any order, for
pairs of (row, result). A row's `agent_ref.name` is the name of an environment of the gym, and its `_rowidx` comes back
untouched. After the call every row must have its `agent_ref`, so one without gets the default environment's.

Source: NVIDIA-NeMo/RL, nemo_rl/environments/nemo_gym.py (`_stream_rollouts`, `_typed_gym_failure`), and
NVIDIA-NeMo/Gym, nemo_gym/rollout_collection.py (`run_examples`), stored copies of 2026, looked up 2026-11-30.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gym_core.client import GymClient, RolloutsEnded
from gym_core.errors import FAILURE_POLICY, EpisodeError, FailureKind
from gym_core.export.formats.nemo_rl import NoSequence, nemo_rl_result
from gym_core.types.session import Sampling
from gym_core.types.trainer import MAX_REPEATS, MAX_ROLLOUTS, MAX_ROWS, RolloutLine, RolloutsRequest
from gym_core.types.wire import JsonObject

Pair = tuple[JsonObject, JsonObject]
"""(row, result)"""

_ROUTING = ("agent_ref", "task_source")
"""Of NeMo RL, and no part of the task; so is all that begins with an underscore."""


class HeadAddress(Protocol):
    """NeMo Gym's `BaseServerConfig`, or anything with a host and a port."""

    host: str
    port: int


class NemoRolloutError(RuntimeError):
    """A rollout that has no result. NeMo RL sorts it by `status`: 5xx is played again, others are the data's fault."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class _Batch:
    """What one request plays: prompts with equally many examples each."""

    environment: str
    prompts: Sequence[Sequence[JsonObject]]


class NemoRolloutCollector:
    """Plays NeMo RL's examples through POST /v1/rollouts of a head server.

    One request an environment and call, more where it would be too large; NeMo RL's copies of a prompt are its
    repeats. Results come in order of completion. What a caller no longer awaits is cancelled when the iterator is
    closed.
    """

    def __init__(
        self,
        token: str,
        *,
        environment: str | None = None,
        num_samples_in_parallel: int = 64,
        sampling: Sampling | None = None,
    ) -> None:
        """`token` is the head's; `environment` serves rows without an `agent_ref`."""
        self._token = token
        self._environment = environment
        self._parallel = num_samples_in_parallel
        self._sampling = sampling or Sampling()

    def run_examples(
        self, examples: Sequence[JsonObject], head_server_config: HeadAddress
    ) -> Generator[Coroutine[None, None, Pair], None, None]:
        """As many awaitables as examples. Call it inside a running event loop.

        Awaiting one raises NemoRolloutError when its rollout has no tokens, or when the stream ended without it.
        Raises ValueError for a row that names no environment.
        """
        prompts: dict[tuple[str, bytes], list[JsonObject]] = {}
        for row in examples:
            prompts.setdefault((self._route(row), msgspec.json.encode(_task_row(row), order="sorted")), []).append(row)
        requests = list(_batches((name, repeats) for (name, _), repeats in prompts.items()))
        return self._results(requests, len(examples), f"http://{head_server_config.host}:{head_server_config.port}")

    def _route(self, row: JsonObject) -> str:
        name = (row.get("agent_ref") or {}).get("name") or self._environment
        if not name:
            raise ValueError("a row needs agent_ref.name, the name of an environment, or the collector a default one")
        row["agent_ref"] = (row.get("agent_ref") or {"type": "responses_api_agents"}) | {"name": name}
        return str(name)

    def _results(
        self, batches: "Sequence[_Batch]", count: int, url: str
    ) -> Generator[Coroutine[None, None, Pair], None, None]:
        outcomes: asyncio.Queue[Pair | Exception] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._play(batch, url, outcomes)) for batch in batches]
        try:
            for _ in range(count):
                yield _next_of(outcomes)
        finally:
            for task in tasks:
                task.cancel()

    async def _play(self, batch: "_Batch", url: str, outcomes: "asyncio.Queue[Pair | Exception]") -> None:
        """Puts one outcome a row, whatever happens."""
        waiting = {(index, n): row for index, same in enumerate(batch.prompts) for n, row in enumerate(same)}
        error: Exception = NemoRolloutError(f"{url}: the stream ended without this rollout", status=502)
        try:
            request = self._request(batch)
            async with GymClient(url, self._token) as gym:
                async for line in gym.rollouts(request):
                    if isinstance(line, RolloutLine):
                        place = line.task_index, line.repeat
                        outcomes.put_nowait(await asyncio.to_thread(_outcome, waiting[place], line))
                        del waiting[place]
        except RolloutsEnded as ended:
            error = NemoRolloutError(f"{url}: {ended}", status=_status_of(ended.line.kind))
        except EpisodeError as failure:
            error = NemoRolloutError(str(failure), status=FAILURE_POLICY[failure.kind].http_status)
        except ValueError as failure:  # the gym refused the request, or sent a line that is none
            error = NemoRolloutError(str(failure), status=422)
        except Exception as failure:  # noqa: BLE001 - whatever it is, each row's awaitable must end
            error = failure
        for _ in waiting:
            outcomes.put_nowait(error)

    def _request(self, batch: "_Batch") -> RolloutsRequest:
        """Raises ValueError for numbers that the head does not take."""
        return RolloutsRequest(
            environment=batch.environment,
            rows=[_task_row(same[0]) for same in batch.prompts],
            num_repeats=len(batch.prompts[0]),
            sampling=self._sampling,
            num_samples_in_parallel=self._parallel,
            images="inline",
        )


def _batches(prompts: Iterable[tuple[str, Sequence[JsonObject]]]) -> Iterator[_Batch]:
    """Of (environment, copies of one prompt); none larger than a request may be, and a prompt once in each."""
    alike: dict[tuple[str, int, int], list[Sequence[JsonObject]]] = {}
    for name, copies in prompts:
        for start in range(0, len(copies), MAX_REPEATS):
            part = copies[start : start + MAX_REPEATS]
            alike.setdefault((name, start, len(part)), []).append(part)
    for (name, _, n_repeats), same in alike.items():
        n_rows = min(MAX_ROWS, MAX_ROLLOUTS // n_repeats)
        for start in range(0, len(same), n_rows):
            yield _Batch(name, same[start : start + n_rows])


async def _next_of(outcomes: "asyncio.Queue[Pair | Exception]") -> Pair:
    outcome = await outcomes.get()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _outcome(example: JsonObject, line: RolloutLine) -> Pair | Exception:
    """A rollout that is no result is that row's error alone."""
    urls = {image.sha256: image.data_url for sample in line.samples for image in sample.images if image.data_url}
    try:
        row = (line.row or {}) | {"responses_create_params": (line.row or example)["responses_create_params"]}
        result = nemo_rl_result(row, line.samples, urls.__getitem__)
        return example, result | {"responses_create_params": example["responses_create_params"]}
    except NoSequence as error:
        reason = f"rollout of task {line.task_index} has nothing to train: {error} ({line.end_reason})"
        return NemoRolloutError(reason, status=503)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other rows of the request are sound
        reason = f"rollout of task {line.task_index} cannot be made a result: {type(error).__name__}: {error}"
        return NemoRolloutError(reason, status=422)


def _task_row(example: JsonObject) -> JsonObject:
    return {key: value for key, value in example.items() if key not in _ROUTING and not key.startswith("_")}


def _status_of(kind: str) -> int:
    return FAILURE_POLICY[FailureKind(kind)].http_status if kind in set(FailureKind) else 503
