"""Each trainer's format against the field list that the trainer publishes, and the way back to the sample.

The lists are transcribed from the public repositories that the format's docstring names: names with the Python types
that their JSON has. A property holds for all of them: lengths, sums of masks, order and number of pictures.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from gym_core.export.formats.nemo_rl import NoSequence, nemo_rl_result
from gym_core.export.formats.prime_rl import prime_rl_sample
from gym_core.export.formats.trl import trl_rollout, trl_rollouts
from gym_core.export.formats.verifiers import trajectory_steps
from gym_core.export.formats.verl import agent_loop_output
from gym_core.types.flat_row import flat_from_record
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputText,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
    ResponsesBody,
    ResponsesReply,
)
from gym_core.types.rollout import EpisodeTiming, RolloutKey, RolloutRecord, RunRequest
from gym_core.types.sample import TrainingSample
from gym_core.types.wire import JsonObject
from tests.fakes.nemo_rl import nemo_rl_reads
from tests.fakes.rollouts import make_record, make_task
from tests.fakes.samples import FakeTurn, calls_of, make_sample, samples, sha256_of

Fields = dict[str, tuple[type, ...]]
INTS, FLOATS, NONE = (list,), (list,), (type(None),)

VERL: Fields = {
    "prompt_ids": INTS,
    "response_ids": INTS,
    "response_mask": INTS,
    "response_logprobs": FLOATS,
    "routed_experts": NONE,
    "multi_modal_data": (dict,),
    "reward_score": (float, *NONE),
    "num_turns": (int,),
    "metrics": (dict,),
    "extra_fields": (dict,),
    "mm_processor_kwargs": NONE,
}
VERL_REQUIRED = {"prompt_ids", "response_ids", "response_mask", "metrics"}
VERL_METRICS: Fields = {
    "generate_sequences": (float,),
    "tool_calls": (float,),
    "compute_score": (float,),
    "num_preempted": (int,),
}
PRIME_RL: Fields = {
    "token_ids": INTS,
    "mask": INTS,
    "logprobs": FLOATS,
    "temperatures": FLOATS,
    "env_name": (str,),
    "ref_logprobs": NONE,
    "reward": (float, *NONE),
    "mm_kwargs": NONE,
    "routed_experts": NONE,
    "mm_token_type_ids": (list, *NONE),
    "rl_weights": (list, *NONE),
    "ce_weights": NONE,
    "ref_kl_weights": NONE,
    "advantages": (list, *NONE),
}
PRIME_RL_REQUIRED = {"token_ids", "mask", "logprobs", "temperatures", "env_name"}
STEP: Fields = {
    "prompt": (list,),
    "completion": (list,),
    "response": (dict,),
    "tokens": (dict,),
    "reward": (float, *NONE),
    "advantage": (float, *NONE),
    "is_truncated": (bool,),
    "trajectory_id": (str,),
    "extras": (dict,),
}
RESPONSE: Fields = {
    "id": (str,),
    "created": (int,),
    "model": (str,),
    "usage": (dict, *NONE),
    "message": (dict,),
}
ASSISTANT: Fields = {
    "role": (str,),
    "content": (str, list, *NONE),
    "reasoning_content": (str, *NONE),
    "thinking_blocks": (list, *NONE),
    "tool_calls": (list, *NONE),
}
RESPONSE_MESSAGE: Fields = ASSISTANT | {
    "finish_reason": (str, *NONE),
    "is_truncated": (bool, *NONE),
    "tokens": (dict, *NONE),
}
TOOL_CALL: Fields = {"id": (str,), "name": (str,), "arguments": (str,)}
STEP_TOKENS: Fields = {
    "prompt_ids": INTS,
    "prompt_mask": INTS,
    "completion_ids": INTS,
    "completion_mask": INTS,
    "completion_logprobs": FLOATS,
    "overlong_prompt": (bool,),
    "is_truncated": (bool,),
    "routed_experts": NONE,
}
TRL_REQUIRED = {"prompt_ids", "completion_ids", "logprobs"}


def assert_fields(found: Any, known: Fields, required: set[str]) -> None:
    """`found` is one of our typed dictionaries. Any: each trainer's has other values."""
    assert required <= found.keys()
    for name, value in found.items():
        assert name in known, f"the trainer has no field {name!r}"
        assert isinstance(value, known[name]), f"{name}: {type(value)}"


def all_of(values: Sequence[object], kind: type) -> bool:
    return all(type(value) is kind for value in values)


def hashes(images: Sequence[JsonObject]) -> list[str]:
    return [image["sha256"] for image in images]


def as_json(value: object) -> object:
    return json.loads(json.dumps(value, allow_nan=False))


def trainable(sample: TrainingSample) -> list[int]:
    """What a trainer may give a gradient."""
    return [0] * len(sample.token_ids) if sample.mask else sample.loss_mask


def trained_end(sample: TrainingSample) -> int:
    return max((span.end for span in sample.calls if span.is_trained), default=0)


@settings(max_examples=60, deadline=None)
@given(samples())
def test_verl_output_has_its_fields_and_is_the_sample(sample: TrainingSample) -> None:
    output = agent_loop_output(sample, EpisodeTiming(respond=3.0, model=2.0, verify=0.5))
    assert_fields(output, VERL, VERL_REQUIRED)
    assert_fields(output["metrics"], VERL_METRICS, set(VERL_METRICS))
    assert output["prompt_ids"] + output["response_ids"] == sample.token_ids
    assert [0] * len(output["prompt_ids"]) + output["response_mask"] == trainable(sample)
    assert [0.0] * len(output["prompt_ids"]) + output["response_logprobs"] == sample.logprobs
    assert sample.mask or not output["response_mask"] or output["response_mask"][0] == 1
    assert all_of(output["response_ids"], int)
    assert all_of(output["response_logprobs"], float)
    assert hashes(output["multi_modal_data"].get("images", [])) == [image.sha256 for image in sample.images]
    assert output["metrics"]["tool_calls"] == 1.0
    as_json(output)


@settings(max_examples=60, deadline=None)
@given(samples())
def test_prime_rl_sample_has_its_fields_and_is_the_sample(sample: TrainingSample) -> None:
    output = prime_rl_sample(sample)
    assert_fields(output, PRIME_RL, PRIME_RL_REQUIRED)
    length = len(sample.token_ids)
    streams = (output["mask"], output["logprobs"], output["temperatures"], output["mm_token_type_ids"])
    optional = (*streams, output["rl_weights"], output["advantages"])
    assert {len(stream) for stream in optional if stream is not None} == {length}
    assert output["token_ids"] == sample.token_ids
    assert all_of(output["mask"], bool)
    assert [int(marked) for marked in output["mask"]] == trainable(sample)
    assert output["logprobs"] == sample.logprobs
    assert sum(output["mm_token_type_ids"] or []) == sum(image.length or 0 for image in sample.images)
    if output["advantages"] is not None:
        assert math.isclose(sum(output["advantages"]), (sample.advantage or 0) * sum(trainable(sample)))
    as_json(output)


@pytest.mark.parametrize(("mode", "expected"), [("raw", {1.0}), ("processed", {1.0, 0.5}), ("unknown", {1.0, 0.5})])
def test_a_trainer_divides_its_logits_only_when_the_log_probabilities_are_processed(
    mode: str, expected: set[float]
) -> None:
    sample = make_sample([FakeTurn(temperature=0.5)], logprobs_mode=mode)
    temperatures = prime_rl_sample(sample)["temperatures"]
    assert set(temperatures) == expected
    assert temperatures[-1] == min(expected)


def test_placeholders_that_are_not_known_are_no_token_types() -> None:
    sample = make_sample([FakeTurn(images=[2])])
    unknown = sample.images[0].model_copy(update={"offset": None, "length": None})
    assert prime_rl_sample(sample.model_copy(update={"images": [unknown]}))["mm_token_type_ids"] is None


@settings(max_examples=60, deadline=None)
@given(samples())
def test_verifiers_steps_have_their_fields_and_are_the_sample(sample: TrainingSample) -> None:
    steps = trajectory_steps(sample, calls_of(sample), model="tiny")
    images: list[str] = []
    seen: list[int] = []
    for step in steps:
        assert_fields(step, STEP, set(STEP))
        assert_fields(step["response"], RESPONSE, set(RESPONSE))
        assert_fields(step["response"]["message"], RESPONSE_MESSAGE, {"finish_reason", "is_truncated"})
        (answer,) = step["completion"]
        assert_fields(answer, ASSISTANT, {"role"})
        for call in [*(answer["tool_calls"] or []), *step["prompt"][0]["tool_calls"]]:
            assert_fields(call, TOOL_CALL, set(TOOL_CALL))
        pictures = [part["image_url"]["url"] for part in step["prompt"][-1]["content"][1:]]
        assert len(pictures) == sum((image.offset or 0) < len(step["tokens"]["prompt_ids"]) for image in sample.images)
        tokens = step["tokens"]
        assert_fields(tokens, STEP_TOKENS, set(STEP_TOKENS))
        assert len(tokens["prompt_mask"]) == len(tokens["prompt_ids"])
        assert len(tokens["completion_ids"]) == len(tokens["completion_mask"]) == len(tokens["completion_logprobs"])
        assert tokens["prompt_ids"][: len(seen)] == seen
        seen = tokens["prompt_ids"] + tokens["completion_ids"]
        images += hashes(step["extras"]["images"])
    assert seen == sample.token_ids[: trained_end(sample)]
    marked = [m for step in steps for m in step["tokens"]["completion_mask"]]
    assert (len(marked), sum(marked)) == (sum(sample.loss_mask), sum(trainable(sample)))
    assert images == hashes([i.model_dump() for i in sample.images if (i.offset or 0) < trained_end(sample)])
    assert [p for step in steps for p in step["tokens"]["completion_logprobs"]] == [
        logprob for logprob, marked in zip(sample.logprobs, sample.loss_mask, strict=True) if marked
    ]
    as_json(steps)


def test_the_messages_of_a_step_hold_the_pictures_as_the_sample_does() -> None:
    sample = make_sample([FakeTurn(images=[2])])
    inline = sample.images[0].model_copy(update={"data_url": "data:image/png;base64,AAAA"})
    for image, url in ((sample.images[0], f"sha256:{sample.images[0].sha256}"), (inline, inline.data_url)):
        (step,) = trajectory_steps(sample.model_copy(update={"images": [image]}), calls_of(sample))
        assert step["prompt"][-1]["content"][1]["image_url"]["url"] == url


def test_a_masked_sample_trains_nothing_in_any_format() -> None:
    sample = make_sample([FakeTurn()], mask=True, mask_reason="call_incomplete", advantage=0.5, weight=0.5)
    verl, prime, trl = agent_loop_output(sample), prime_rl_sample(sample), trl_rollout(sample)
    (step,) = trajectory_steps(sample, calls_of(sample))
    assert (verl["response_mask"], verl["reward_score"]) == ([0, 0], None)
    assert verl["extra_fields"]["gym_mask_reason"] == "call_incomplete"
    assert (sum(prime["mask"]), prime["reward"], sum(prime["rl_weights"] or [])) == (0, None, 0)
    assert sum(prime["advantages"] or []) == 0
    assert (sum(trl["env_mask"]), trl["gym_reward"]) == (0, None)
    assert (step["tokens"]["completion_mask"], step["reward"], step["advantage"]) == ([0, 0], None, None)
    assert step["extras"]["mask_reason"] == "call_incomplete"


@settings(max_examples=60, deadline=None)
@given(samples())
def test_a_trl_rollout_has_its_keys_and_is_the_sample(sample: TrainingSample) -> None:
    output = trl_rollout(sample)
    assert output.keys() >= TRL_REQUIRED
    assert output["prompt_ids"] + output["completion_ids"] == sample.token_ids
    assert len(output["completion_ids"]) == len(output["logprobs"]) == len(output["env_mask"])
    assert sum(output["env_mask"]) == sum(trainable(sample))
    assert [0.0] * len(output["prompt_ids"]) + output["logprobs"] == sample.logprobs
    assert hashes(output["gym_images"]) == [image.sha256 for image in sample.images]
    assert (output["gym_reward"] is None) == sample.mask
    as_json(output)


def test_trl_rollouts_are_lists_with_one_entry_a_prompt() -> None:
    batch = [make_sample([FakeTurn(sampled=n)], sample_id=str(n)) for n in (1, 2, 3)]
    columns: JsonObject = dict(trl_rollouts(batch))
    assert columns.keys() == trl_rollout(batch[0]).keys()
    assert {len(column) for column in columns.values()} == {3}
    assert [len(ids) for ids in columns["completion_ids"]] == [1, 2, 3]


# --- NeMo RL


def url_of(sha256: str) -> str:
    return f"data:image/png;base64,{sha256}"


def record_with(items: Sequence[Any], *, pictures: int = 0) -> RolloutRecord:
    """Any: response items."""
    content = [
        InputText(text="what is it?"),
        *(InputImage(image_url=f"sha256:{sha256_of(n)}") for n in range(pictures)),
    ]
    task = make_task(0).model_copy(
        update={"responses_create_params": ResponsesBody(input=[InputMessage(role="user", content=content)])}
    )
    key = RolloutKey(task_hash="a" * 64, repeat=0)
    request = RunRequest(key=key, task_index=0, task=task, environment="puzzles", rollout_id="t0-r0")
    record = make_record(request)
    response = ResponsesReply(id="r", created_at=1.0, status="completed", output=list(items))
    return record.model_copy(update={"evidence": record.evidence.model_copy(update={"response": response})})


def tool_turn(number: int, output: str | list[InputText | InputImage]) -> list[Any]:
    """Any: response items."""
    return [
        ReasoningItem(id=f"r{number}", content=[ReasoningText(text="hm")]),
        FunctionCall(call_id=f"c{number}", name="read", arguments="{}"),
        FunctionCallOutput(call_id=f"c{number}", output=output),
    ]


@settings(max_examples=80, deadline=None)
@given(samples())
def test_nemo_rl_reads_back_the_tokens_and_bins_the_pictures(sample: TrainingSample) -> None:
    row = flat_from_record(record_with([]))
    if not any(sample.loss_mask):
        with pytest.raises(NoSequence):
            nemo_rl_result(row, [sample], url_of)
        return
    result = nemo_rl_result(row, [sample], url_of)
    ids, mask, logprobs, bins = nemo_rl_reads(result)
    end = trained_end(sample)
    assert (ids, mask, logprobs) == (sample.token_ids[:end], sample.loss_mask[:end], sample.logprobs[:end])
    assert [url for turn in bins for url in turn] == [url_of(i.sha256) for i in sample.images if (i.offset or 0) < end]
    assert result["mask_sample"] == result["instance_config"]["mask_sample"] == sample.mask
    starts = [span.start for span in sample.calls if span.is_trained]
    for start, previous, turn in zip(starts, [0, *starts], bins, strict=False):
        placed = [i for i in sample.images if previous <= (i.offset or 0) < start]
        assert turn == [url_of(image.sha256) for image in placed]
    as_json(result)


def test_nemo_rl_gets_the_pictures_of_the_task_and_of_tools_once_each() -> None:
    read = [InputText(text="https://not.a/picture"), InputImage(image_url=f"sha256:{sha256_of(1)}")]
    answer = OutputMessage(id="m", content=[OutputText(text="a cat")])
    record = record_with([*tool_turn(0, read), *tool_turn(1, "http://fetched.by/nobody"), answer], pictures=1)
    sample = make_sample([FakeTurn(images=[2]), FakeTurn(images=[3]), FakeTurn()])
    result = nemo_rl_result(flat_from_record(record), [sample], url_of)
    _, _, _, bins = nemo_rl_reads(result)
    assert bins == [[url_of(sha256_of(0))], [url_of(sha256_of(1))], []]
    trained = [item for item in result["response"]["output"] if "generation_token_ids" in item]
    assert [item["type"] for item in trained] == ["function_call", "function_call", "message"]
    task = result["responses_create_params"]["input"][0]["content"]
    assert task[1]["image_url"] == url_of(sha256_of(0))
    assert "sha256:" not in json.dumps(result["response"])


def test_nemo_rl_gets_one_piece_and_is_told_what_was_left_out() -> None:
    short = make_sample([FakeTurn(sampled=2)], sample_id="s.0.0")
    long = make_sample([FakeTurn(sampled=9)], sample_id="s.0.1")
    masked = make_sample([FakeTurn(sampled=99)], sample_id="s.0.2", mask=True, mask_reason="call_incomplete")
    result = nemo_rl_result(flat_from_record(record_with([])), [short, long, masked], url_of)
    assert sum(nemo_rl_reads(result)[1]) == 9
    drift = result["_gym_drift"]
    assert (drift["taken"], drift["left_out"], drift["left_out_tokens"]) == ("s.0.1", ["s.0.0", "s.0.2"], 101)


def test_nemo_rl_gets_the_main_branch_however_long_another_one_is() -> None:
    main = make_sample([FakeTurn(sampled=2)], sample_id="s.0.0")
    subagent = make_sample([FakeTurn(sampled=9)], sample_id="s.1.0", branch=1, branch_label="subagent")
    for order in ([main, subagent], [subagent, main]):
        assert nemo_rl_result(flat_from_record(record_with([])), order, url_of)["_gym_drift"]["taken"] == "s.0.0"


@pytest.mark.parametrize("reason", ["sampled_image_placeholder", "image_placeholders_mismatch", "image_missing"])
def test_nemo_rl_is_not_given_tokens_that_its_forward_pass_cannot_take(reason: str) -> None:
    sample = make_sample([FakeTurn(images=[2])], mask=True, mask_reason=reason)
    with pytest.raises(NoSequence, match=reason):
        nemo_rl_result(flat_from_record(record_with([])), [sample], url_of)


def test_nemo_rl_is_not_given_a_reward_that_its_components_contradict() -> None:
    row = flat_from_record(record_with([]))
    good = make_sample([FakeTurn()], reward=1.0, reward_components={"right": 0.75, "short": 0.25})
    bad = make_sample([FakeTurn()], reward=1.0, reward_components={"right": 0.75})
    assert nemo_rl_result(row, [good], url_of)["reward_components"] == {"right": 0.75, "short": 0.25}
    assert nemo_rl_result(row, [bad], url_of)["reward_components"] is None


def test_a_masked_rollout_reaches_nemo_rl_with_its_mask_and_a_number() -> None:
    sample = make_sample([FakeTurn()], reward=None, mask=True, mask_reason="rollout_masked:judge_failed")
    result = nemo_rl_result(flat_from_record(record_with([])), [sample], url_of)
    assert (result["reward"], result["mask_sample"]) == (0.0, True)
    assert result["_gym_mask_reason"] == "rollout_masked:judge_failed"
