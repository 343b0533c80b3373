"""NeMo RL's collector over a real head server: examples in, results out that NeMo RL can read."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from gym_core.export.nemo_adapter import NemoRolloutCollector, NemoRolloutError
from gym_core.types.wire import JsonObject
from tests.fakes.nemo_rl import nemo_rl_reads
from tests.fakes.trainer_gym import HEAD_TOKEN, TrainerGym, make_row, trainer_gym


@pytest.fixture
async def gym(tmp_path: Path) -> AsyncIterator[TrainerGym]:
    async with trainer_gym(tmp_path) as gym:
        gym.inside.endpoint.rule = lambda _: "teapot"
        yield gym


def example(number: int, question: str, *, phrase: str = "teapot", image: bool = False) -> JsonObject:
    agent = {"type": "responses_api_agents", "name": "echo"}
    return {**make_row(question, phrase=phrase, image=image), "_rowidx": number, "agent_ref": agent}


async def play(gym: TrainerGym, examples: list[JsonObject]) -> list[tuple[JsonObject, JsonObject]]:
    address = urlsplit(gym.url)
    collector = NemoRolloutCollector(HEAD_TOKEN)
    head = SimpleNamespace(host=address.hostname, port=address.port)
    return [await task for task in collector.run_examples(examples=examples, head_server_config=head)]


async def test_a_group_of_examples_comes_back_with_tokens_that_nemo_rl_can_read(gym: TrainerGym) -> None:
    copies = [example(number, "what?") for number in range(2)]
    pairs = await play(gym, [*copies, example(7, "and this?", phrase="kettle")])
    assert sorted(row["_rowidx"] for row, _ in pairs) == [0, 1, 7]
    for row, result in pairs:
        ids, mask, logprobs, bins = nemo_rl_reads(result)
        assert [token for token, marked in zip(ids, mask, strict=True) if marked] == [*map(ord, "teapot"), 1]
        assert (len(logprobs), bins) == (len(ids), [[]])
        assert result["reward"] == (0.0 if row["_rowidx"] == 7 else 1.0)
        (item,) = [item for item in result["response"]["output"] if "generation_token_ids" in item]
        assert item["content"][0]["text"] == "teapot"


async def test_pictures_without_placeholders_are_an_error_and_not_a_crash_of_the_trainer(gym: TrainerGym) -> None:
    with pytest.raises(NemoRolloutError, match="image_placeholders_mismatch") as caught:
        await play(gym, [example(0, "what?", image=True)])  # this endpoint knows no placeholders
    assert caught.value.status == 503


async def test_an_endpoint_without_token_ids_is_an_error_for_each_example(gym: TrainerGym) -> None:
    gym.inside.endpoint.gives_token_ids = False
    with pytest.raises(NemoRolloutError, match="token"):
        await play(gym, [example(0, "what?")])
