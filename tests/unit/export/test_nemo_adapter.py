"""The collector that NeMo RL calls, against a head that answers with the lines of POST /v1/rollouts."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from gym_core.errors import FailureKind
from gym_core.export.formats.nemo_rl import ImageUrl, nemo_rl_result
from gym_core.export.nemo_adapter import NemoRolloutCollector, NemoRolloutError, Pair
from gym_core.http.problem import problem_response
from gym_core.types.flat_row import flat_from_record
from gym_core.types.rollout import RolloutKey, RunRequest
from gym_core.types.sample import TrainingSample
from gym_core.types.trainer import EndLine, ErrorLine, RolloutLine, RolloutsRequest
from gym_core.types.wire import BulkyWire, JsonObject, Wire
from tests.fakes.rollouts import make_record, make_task
from tests.fakes.samples import FakeTurn, make_sample
from tests.fakes.serving import serving

PICTURE = "data:image/png;base64,AAAA"


@dataclass
class FakeHead:
    """Plays every row at once, the last one first. `broken` rows have no samples; `ending` is the last line."""

    broken: Sequence[int] = ()
    ending: Wire | None = field(default_factory=lambda: END)
    refusal: str | None = None
    asked: list[RolloutsRequest] = field(default_factory=list)

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/rollouts")
        async def rollouts(request: Request) -> object:
            if self.refusal is not None:
                return problem_response(422, "bad_request", self.refusal, type_name="ValueError")
            asked = RolloutsRequest.from_json(await request.body())
            self.asked.append(asked)
            return StreamingResponse(self._lines(asked), media_type="application/x-ndjson")

        return app

    async def _lines(self, asked: RolloutsRequest) -> AsyncIterator[bytes]:
        for index in reversed(range(len(asked.rows or []))):
            for repeat in range(asked.num_repeats):
                samples = [] if index in self.broken else [sample_of(index)]
                yield line_of(index, samples, repeat=repeat).to_json() + b"\n"
        if self.ending is not None:
            yield (
                self.ending.to_json() if isinstance(self.ending, BulkyWire) else self.ending.model_dump_json().encode()
            ) + b"\n"


END = EndLine(prompts=2, rollouts=2, measured=2, masked=0, stopped_by="prompts")


@dataclass(frozen=True)
class Address:
    host: str
    port: int


def sample_of(index: int) -> TrainingSample:
    sample = make_sample([FakeTurn(images=[2], sampled=index + 1)], task_index=index)
    return sample.model_copy(update={"images": [sample.images[0].model_copy(update={"data_url": PICTURE})]})


def line_of(index: int, samples: list[TrainingSample], *, repeat: int) -> RolloutLine:
    key = RolloutKey(task_hash=f"{index:064}", repeat=repeat)
    request = RunRequest(key=key, task_index=index, task=make_task(index), environment="puzzles", rollout_id="r")
    return RolloutLine(
        task_index=index,
        repeat=repeat,
        advantage_group=key.task_hash,
        end_reason="completed",
        reward=1.0,
        row=flat_from_record(make_record(request)),
        samples=samples,
    )


def example(index: int, agent: str | None = "puzzles") -> JsonObject:
    content = [{"type": "input_image", "image_url": PICTURE}, {"type": "input_text", "text": f"question {index}"}]
    row: JsonObject = {
        "responses_create_params": {"input": [{"type": "message", "role": "user", "content": content}]},
        "expected_answer": "x",
        "_rowidx": 40 + index,
    }
    return row | ({"agent_ref": {"type": "responses_api_agents", "name": agent}} if agent else {})


async def collect(head: FakeHead, examples: list[JsonObject], **options: str) -> list[Pair | Exception]:
    async with serving(head.app()) as url:
        address = urlsplit(url)
        collector = NemoRolloutCollector("token", **options)  # type: ignore[arg-type]  # strings alone in here
        found: list[Pair | Exception] = []
        for task in collector.run_examples(examples, Address(str(address.hostname), address.port or 0)):
            try:
                found.append(await asyncio.wait_for(task, 10))
            except Exception as error:  # noqa: BLE001 - handed to the test
                found.append(error)
        return found


async def test_each_example_comes_back_with_its_result_as_it_is_done() -> None:
    head = FakeHead()
    pairs = [pair for pair in await collect(head, [example(0), example(1)]) if not isinstance(pair, Exception)]
    assert [row["_rowidx"] for row, _ in pairs] == [41, 40]
    for row, result in pairs:
        (item,) = [item for item in result["response"]["output"] if item.get("generation_token_ids")]
        assert len(item["generation_token_ids"]) == row["_rowidx"] - 39
        assert result["responses_create_params"] == row["responses_create_params"]
        parts = [part for message in result["response"]["agent_input"] for part in message["content"]]
        assert [part["image_url"] for part in parts if "image_url" in part] == [PICTURE]


async def test_the_head_gets_the_task_and_nothing_of_nemo_rl() -> None:
    head = FakeHead()
    await collect(head, [example(0)])
    (asked,) = head.asked
    assert asked.rows == [{k: v for k, v in example(0).items() if k not in ("_rowidx", "agent_ref")}]
    assert (asked.environment, asked.images, asked.num_repeats) == ("puzzles", "inline", 1)


async def test_rows_of_two_environments_are_two_requests() -> None:
    head = FakeHead()
    results = await collect(head, [example(0, "a"), example(1, "b"), example(2, "a")])
    assert sorted((asked.environment, len(asked.rows or [])) for asked in head.asked) == [("a", 2), ("b", 1)]
    assert sorted(pair[0]["_rowidx"] for pair in results if not isinstance(pair, Exception)) == [40, 41, 42]


async def test_copies_of_a_prompt_are_its_repeats_and_come_back_as_examples_of_their_own() -> None:
    head = FakeHead()
    copies = [example(0) | {"_rowidx": number} for number in range(3)]
    results = await collect(head, [*copies, example(1)])
    assert sorted((asked.num_repeats, len(asked.rows or [])) for asked in head.asked) == [(1, 1), (3, 1)]
    assert sorted(pair[0]["_rowidx"] for pair in results if not isinstance(pair, Exception)) == [0, 1, 2, 41]


async def test_a_row_without_an_agent_gets_the_default_environment() -> None:
    rows = [example(0, None)]
    await collect(FakeHead(), rows, environment="puzzles")
    assert rows[0]["agent_ref"]["name"] == "puzzles"


async def test_a_row_that_names_no_environment_is_refused_before_anything_is_played() -> None:
    head = FakeHead()
    with pytest.raises(ValueError, match="agent_ref"):
        await collect(head, [example(0, None)])
    assert head.asked == []


async def test_a_rollout_without_tokens_is_an_error_that_is_played_again() -> None:
    outcomes = await collect(FakeHead(broken=[1]), [example(0), example(1)])
    (error,) = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert isinstance(error, NemoRolloutError)
    assert error.status == 503


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (END, 502),
        (ErrorLine(kind="breakdown", message="everything is masked"), 503),
        (ErrorLine(kind=FailureKind.INVALID_TASK, message="no"), 422),
    ],
)
async def test_a_stream_that_ends_early_ends_every_awaitable(ending: Wire | None, status: int) -> None:
    class Mute(FakeHead):
        async def _lines(self, asked: RolloutsRequest) -> AsyncIterator[bytes]:
            if self.ending is not None:
                yield self.ending.model_dump_json().encode() + b"\n"

    outcomes = await collect(Mute(ending=ending), [example(0), example(1)])
    assert [error.status for error in outcomes if isinstance(error, NemoRolloutError)] == [status] * 2


async def test_a_request_that_the_head_refuses_ends_every_awaitable_with_its_words() -> None:
    outcomes = await collect(FakeHead(refusal="rows: 0: no"), [example(0), example(1)])
    assert [(str(error), getattr(error, "status", None)) for error in outcomes] == [("rows: 0: no", 422)] * 2


@pytest.mark.parametrize(
    ("prompts", "copies", "asked_for"),
    [(3, 4, [(1, 4), (2, 4)]), (1, 12, [(1, 2), (1, 5), (1, 5)])],
)
async def test_more_than_a_request_may_hold_is_several(
    prompts: int, copies: int, asked_for: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MAX_ROLLOUTS", 10), ("MAX_REPEATS", 5)):
        monkeypatch.setattr(f"gym_core.export.nemo_adapter.{name}", value)
    head = FakeHead()
    examples = [example(n) | {"_rowidx": 100 * n + copy} for n in range(prompts) for copy in range(copies)]
    results = await collect(head, examples)
    assert sorted((len(asked.rows or []), asked.num_repeats) for asked in head.asked) == asked_for
    found = sorted(pair[0]["_rowidx"] for pair in results if not isinstance(pair, Exception))
    assert found == [row["_rowidx"] for row in examples]


async def test_a_request_that_cannot_be_made_ends_every_awaitable() -> None:
    address = Address("127.0.0.1", 9)
    tasks = NemoRolloutCollector("token", num_samples_in_parallel=0).run_examples([example(0), example(1)], address)
    for task in tasks:
        with pytest.raises(NemoRolloutError, match="num_samples_in_parallel") as refused:
            await asyncio.wait_for(task, 2)
        assert refused.value.status == 422


async def test_a_rollout_that_is_no_result_is_the_error_of_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_for_one(row: JsonObject, samples: Sequence[TrainingSample], image_url: ImageUrl) -> JsonObject:
        if samples[0].task_index == 1:
            raise RuntimeError("odd")
        return nemo_rl_result(row, samples, image_url)

    monkeypatch.setattr("gym_core.export.nemo_adapter.nemo_rl_result", fails_for_one)
    outcomes = await collect(FakeHead(), [example(0), example(1), example(2)])
    assert [type(outcome) for outcome in outcomes] == [tuple, NemoRolloutError, tuple]
    assert "RuntimeError: odd" in str(outcomes[1])


async def test_what_is_no_longer_awaited_is_cancelled() -> None:
    head = FakeHead()
    async with serving(head.app()) as url:
        address = urlsplit(url)
        collector = NemoRolloutCollector("token")
        before = asyncio.all_tasks()
        tasks = collector.run_examples([example(0), example(1)], Address(str(address.hostname), address.port or 0))
        await next(tasks)
        started = asyncio.all_tasks() - before
        tasks.close()
        await asyncio.gather(*started, return_exceptions=True)
        assert all(task.done() for task in started)
