"""What a trainer may count on over REST: what is refused and how, lines and their schema, replay, pictures."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest

from gym_core.client import GymClient
from gym_core.errors import FailureKind, InvalidTask, SessionError
from gym_core.launch.policy_check import check_policy
from gym_core.types.policy import PauseMode
from gym_core.types.trainer import TRAINER_LINE, EndLine, ErrorLine, GroupLine, RolloutLine, RolloutsRequest
from gym_core.types.wire import JsonObject
from tests.fakes.model import Fault
from tests.fakes.proxy import eventually
from tests.fakes.relay import breaking_relay
from tests.fakes.trainer_gym import HEAD_TOKEN, TrainerGym, make_row, trainer_gym

Line = RolloutLine | GroupLine | EndLine


@pytest.fixture
async def gym(tmp_path: Path) -> AsyncIterator[TrainerGym]:
    async with trainer_gym(tmp_path) as gym:
        gym.inside.endpoint.rule = lambda _: "teapot"
        yield gym


async def lines_of(gym: TrainerGym, **request: object) -> list[Line]:
    return [line async for line in gym.client.rollouts(RolloutsRequest.model_validate(request))]


def rollouts(lines: list[Line]) -> list[RolloutLine]:
    return [line for line in lines if isinstance(line, RolloutLine)]


def grouped(**selection: object) -> JsonObject:
    return {"num_repeats": 2, "group": {"selection": selection}}


async def after_the_look(gym: TrainerGym, *faults: Fault) -> int:
    """The coming requests meet these faults, those of the look at the endpoint left out; how many those are."""
    endpoint = gym.inside.endpoint
    before = len(endpoint.requests)
    await check_policy(gym.inside.servers.policy, needs_images=False)
    looks = len(endpoint.requests) - before
    endpoint.requests.clear()
    endpoint.fail(*[Fault.NONE] * looks, *faults)
    return looks


# -- what comes back ------------------


async def test_rows_come_back_as_rollouts_with_token_exact_samples(gym: TrainerGym) -> None:
    lines = await lines_of(gym, rows=[make_row("a", image=True), make_row("b", phrase="kettle")], num_repeats=2)
    found = {(line.task_index, line.repeat): line for line in rollouts(lines)}
    assert {place: line.reward for place, line in found.items()} == {(0, 0): 1, (0, 1): 1, (1, 0): 0, (1, 1): 0}
    (sample,) = found[0, 0].samples
    sampled = [token for token, marked in zip(sample.token_ids, sample.loss_mask, strict=True) if marked]
    assert sampled == [*map(ord, "teapot"), 1]
    assert sample.advantage_group == found[0, 1].samples[0].advantage_group
    assert [image.media_type for image in sample.images] == ["image/png"]
    assert found[0, 0].row is not None
    assert found[0, 0].row["_gym_sequences"]["sampled_tokens"] == 7
    end = lines[-1]
    assert isinstance(end, EndLine)
    # This endpoint's prompt ids are characters and hold no placeholders: samples with a picture are not for training.
    assert sample.mask_reason == "image_placeholders_mismatch"
    assert (end.rollouts, end.mean_reward, end.trainable_tokens) == (4, 0.5, 2 * 7)
    assert end.sequences is not None
    assert (end.sequences.rollouts, end.sequences.drifted_rollouts) == (4, 0)


async def test_a_dataset_is_played_from_where_it_is_asked(gym: TrainerGym) -> None:
    lines = await lines_of(gym, split="train", start=1, limit=2)
    assert sorted(line.task_index for line in rollouts(lines)) == [1, 2]
    assert {line.samples[0].rollout_id[:2] for line in rollouts(lines)} == {"t1", "t2"}


async def test_the_requests_sampling_reaches_the_endpoint_over_the_rows_own(gym: TrainerGym) -> None:
    row = make_row("a")
    row["responses_create_params"]["temperature"] = 0.1
    lines = await lines_of(gym, rows=[row], sampling={"temperature": 0.7})
    assert gym.inside.endpoint.requests[-1].body["temperature"] == 0.7
    assert rollouts(lines)[0].samples[0].calls[0].temperature == 0.7


async def test_pictures_come_by_hash_or_inline(gym: TrainerGym) -> None:
    (line, _) = await lines_of(gym, rows=[make_row("a", image=True)])
    assert isinstance(line, RolloutLine)
    sha256 = line.samples[0].images[0].sha256
    reply = await gym.http.get(f"/v1/assets/{sha256}")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "image/png")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert await gym.client.image(sha256) == reply.content
    (line, _) = await lines_of(gym, rows=[make_row("a", image=True)], images="inline")
    assert isinstance(line, RolloutLine)
    assert str(line.samples[0].images[0].data_url).startswith("data:image/png;base64,")


@pytest.mark.parametrize(("name", "status"), [("0" * 64, 404), ("x" * 64, 422), ("..%2f..%2fetc%2fpasswd", 404)])
async def test_nothing_but_a_known_hash_names_a_picture(gym: TrainerGym, name: str, status: int) -> None:
    assert (await gym.http.get(f"/v1/assets/{name}")).status_code == status


async def test_groups_bring_advantages(gym: TrainerGym) -> None:
    answers = iter(["teapot", "kettle"] * 10)
    gym.inside.endpoint.rule = lambda messages: "teapot" if "question" not in str(messages) else next(answers)
    lines = await lines_of(gym, split="train", limit=1, num_repeats=4, num_samples_in_parallel=1, group={})
    assert [line.advantage for line in rollouts(lines)] == [0.5, -0.5, 0.5, -0.5]
    group = lines[-2]
    assert isinstance(group, GroupLine)
    assert (group.statistics.mean, group.statistics.std, group.statistics.measured) == (0.5, 0.5, 4)


async def test_the_example_of_the_documents_plays_on_a_fresh_gym(gym: TrainerGym) -> None:
    text = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()
    body = text.partition("$HEAD/v1/rollouts")[2].partition("-d '")[2].partition("'")[0]
    answers = iter(["teapot", "kettle"] * 2)
    gym.inside.endpoint.rule = lambda messages: "teapot" if "question" not in str(messages) else next(answers)
    one_by_one = {"num_samples_in_parallel": 1, "split": "train"}
    end = (await lines_of(gym, **{**json.loads(body), **one_by_one}))[-1]
    assert isinstance(end, EndLine)
    assert (end.groups, end.dropped, end.trainable_tokens) == ({"kept": 2}, 0, 4 * 7)


async def test_rollouts_whose_token_ids_vanished_are_told_and_in_no_batch(gym: TrainerGym) -> None:
    answers = iter(["teapot", "kettle"] * 4)

    def rule(messages: list[JsonObject]) -> str:
        if "question" not in str(messages):
            return "teapot"  # the look at the endpoint
        gym.inside.endpoint.gives_token_ids = False
        return next(answers)

    gym.inside.endpoint.rule = rule
    lines = await lines_of(gym, split="train", limit=1, num_repeats=4, num_samples_in_parallel=1, group={})
    told = {(line.no_samples, line.dropped, line.advantage) for line in rollouts(lines)}
    assert told == {("no_token_ids", "broken:no_token_ids", None)}
    group, end = lines[-2:]
    assert isinstance(group, GroupLine)
    assert (group.kept, group.reason) == (0, "broken")
    assert isinstance(end, EndLine)
    assert (end.without_samples, end.dropped, end.groups) == ({"no_token_ids": 4}, 4, {"broken": 1})
    assert end.sequences is not None
    assert (end.sequences.rollouts, end.sequences.incomplete_calls) == (0, 4)


@pytest.mark.parametrize("fault", [Fault.FEWER_IDS, Fault.BAD_LOGPROB])
async def test_a_rollout_whose_token_ids_are_not_whole_says_so(gym: TrainerGym, fault: Fault) -> None:
    await after_the_look(gym, fault)
    looked_at = await gym.client.run("echo", make_row("a"), samples=True)
    assert (looked_at["samples"], looked_at["no_samples"]) == ([], "no_token_ids")
    assert looked_at["_gym_sequences"]["incomplete_calls"] == 1


async def test_dynamic_sampling_does_not_count_groups_without_samples(gym: TrainerGym) -> None:
    answers = iter(["teapot", "kettle"] * 8)
    lost = iter([False, False])

    def rule(messages: list[JsonObject]) -> str:
        if "question" not in str(messages):
            return "teapot"
        gym.inside.endpoint.gives_token_ids = next(lost, True)
        return next(answers)

    gym.inside.endpoint.rule = rule
    selection = {"method": "dynamic", "groups": 1}
    group = {"selection": selection}
    lines = await lines_of(gym, split="train", num_repeats=2, num_samples_in_parallel=1, group=group)
    end = lines[-1]
    assert isinstance(end, EndLine)
    assert (end.groups, end.stopped_by, end.without_samples) == (
        {"broken": 1, "kept": 1},
        "enough",
        {"no_token_ids": 2},
    )


async def test_samples_carry_the_version_of_the_weights_and_old_ones_are_masked(gym: TrainerGym) -> None:
    await gym.client.set_version(7)
    (line, _) = await lines_of(gym, rows=[make_row("a")], max_staleness=0, idempotency_key="s")
    assert isinstance(line, RolloutLine)
    assert (line.samples[0].calls[0].policy_version, line.samples[0].mask) == (7, False)
    await gym.client.set_version(8)
    (again, end) = await lines_of(gym, rows=[make_row("a")], max_staleness=0, idempotency_key="s")
    assert isinstance(again, RolloutLine)
    assert isinstance(end, EndLine)
    assert (again.samples[0].mask_reason, end.replayed) == ("stale", 1)


async def test_a_stream_that_is_begun_in_a_pause_comes_after_it(
    gym: TrainerGym, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_core.launch.policy_check.PAUSED_POLL_S", 0.01)
    await gym.client.pause(PauseMode.KEEP)
    request = RolloutsRequest(rows=[make_row("left alone")], idempotency_key="k").to_json()
    with pytest.raises(httpx.ReadTimeout):  # this caller leaves
        await gym.http.post("/v1/rollouts", content=request, timeout=0.3)
    asking = asyncio.create_task(lines_of(gym, rows=[make_row("b")]))
    done, _ = await asyncio.wait({asking}, timeout=0.3)
    assert (done, gym.inside.endpoint.requests) == (set(), [])
    await gym.client.resume()
    (line, _) = await asking
    assert isinstance(line, RolloutLine)
    assert line.reward == 1.0
    assert not any(b"left alone" in seen.raw for seen in gym.inside.endpoint.requests)


async def test_the_policy_is_paused_and_resumed(gym: TrainerGym) -> None:
    assert (await gym.client.pause(PauseMode.KEEP)).servers["policy_model"].paused
    assert not (await gym.client.resume()).servers["policy_model"].paused
    assert (await gym.client.policy()).servers["policy_model"].in_flight == 0
    assert {server["name"] for server in await gym.client.servers()} == {"echo", "agent", "policy_model"}


async def test_one_row_brings_its_samples_when_asked(gym: TrainerGym) -> None:
    row = await gym.client.run("echo", make_row("a", image=True), samples=True)
    assert (row["reward"], row["samples"][0]["loss_mask"].count(1)) == (1.0, 7)
    assert await gym.client.image(row["samples"][0]["images"][0]["sha256"])
    assert row["no_samples"] is None
    assert "samples" not in await gym.client.run("echo", make_row("a"))
    gym.inside.endpoint.gives_token_ids = False
    lost = await gym.client.run("echo", make_row("a"), samples=True)
    assert (lost["samples"], lost["no_samples"]) == ([], "no_token_ids")


# -- what is refused ----------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "RolloutsRequest"),
        (b'{"rows": []}', "rows"),
        (b'{"num_repeat": 2}', "num_repeat"),
        (b'{"num_repeats": 0}', "num_repeats"),
        (b'{"group": {}}', "num_repeats"),
        (b'{"rows": [{}], "limit": 1}', "start and limit"),
        (b'{"environment": "chess"}', "no environment 'chess'"),
        (b'{"split": "nowhere"}', "nowhere"),
        (b'{"start": 99}', "no task from 99 on"),
        (b'{"num_repeats": true}', "num_repeats"),
        (b'{"num_repeats": "2"}', "num_repeats"),
        (b'{"start": 1000000000000000000000000000000}', "start"),
        (b'{"max_staleness": 9223372036854775808}', "max_staleness"),
        (b'{"group": {"selection": {"method": "dynamic", "groups": true}}, "num_repeats": 2}', "groups"),
        (b'{"sampling": {"temperature": 1e300}}', "temperature"),
        (b'{"sampling": {"max_output_tokens": 1000000000000}}', "max_output_tokens"),
        (b'{"rows": [{"responses_create_params": {"input": "a", "temperature": 1e300}}]}', "rows[0]: Task: responses"),
        (b'{"rows": [{"responses_create_params": {"input": "a", "top_p": -1}}]}', "rows[0]: Task: responses"),
        (b'{"rows": [{"responses_create_params": {"input": []}}]}', "rows[0]: responses_create_params.input is empty"),
        (b'{"rows": [{"responses_create_params": {"input": ""}}]}', "rows[0]: responses_create_params.input is empty"),
        (b'{"rows": [{"x": 1}]}', "rows[0]: a task row needs `responses_create_params`"),
        (b'{"rows": [{"responses_create_params": {"input": "a"}}, 7]}', "rows.1"),
        (b'{"rows": [{"responses_create_params": {"input": "a"}}, {"responses_create_params": {}}]}', "rows[1]: Task"),
    ],
)
async def test_a_wrong_request_is_a_status_that_says_what_is_wrong(gym: TrainerGym, body: bytes, said: str) -> None:
    reply = await gym.http.post("/v1/rollouts", content=body)
    assert reply.status_code == 422, reply.text
    assert said in reply.json()["error"]["message"]
    assert gym.inside.endpoint.requests == [], "nothing was played"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"limit": -1}, "limit: Input should be greater than or equal to 1"),
        ({"limit": 0}, "limit: Input should be greater than or equal to 1"),
        ({"limit": 10**9 + 1}, "limit: Input should be less than or equal to 1000000000"),
        ({"start": 2**63 - 1, "limit": 1}, "start: Input should be less than or equal to 1000000000"),
        ({"num_repeats": 1025}, "num_repeats: Input should be less than or equal to 1024"),
        ({"num_samples_in_parallel": 4097}, "num_samples_in_parallel: Input should be less than or equal to 4096"),
        ({"max_rollout_attempts": 101}, "max_rollout_attempts: Input should be less than or equal to 100"),
        ({"max_staleness": 2**63}, "max_staleness: Input should be less than or equal to 9223372036854775807"),
        (grouped(method="dynamic", groups=4097), "groups: Input should be less than or equal to 4096"),
        (grouped(method="dynamic", groups=1, max_prompts=0), "max_prompts: Input should be greater than or equal to 1"),
        (grouped(method="oversample", prompts=4097), "prompts: Input should be less than or equal to 4096"),
        (grouped(method="oversample", prompts=1, max_tokens=0), "max_tokens: Input should be greater than or equal to"),
    ],
)
async def test_a_number_beyond_its_limit_is_refused_with_the_limit(
    gym: TrainerGym, asked: JsonObject, said: str
) -> None:
    reply = await gym.http.post("/v1/rollouts", json=asked)
    assert (reply.status_code, said in reply.json()["error"]["message"]) == (422, True), reply.text


async def test_a_run_has_the_same_limit_of_tasks(gym: TrainerGym) -> None:
    reply = await gym.http.post("/v1/runs", json={"output_jsonl_fpath": "x.jsonl", "limit": 2**63})
    said = "limit: Input should be less than or equal to 1000000000"
    assert (reply.status_code, said in reply.text) == (422, True), reply.text


async def test_a_row_with_a_wrong_picture_is_named_and_nothing_of_it_is_repeated(gym: TrainerGym) -> None:
    bad = make_row("b")
    bad["responses_create_params"]["input"][0]["content"].append({"type": "input_image", "image_url": "http://x/y.png"})
    reply = await gym.http.post("/v1/rollouts", json={"rows": [make_row("a"), bad]})
    assert reply.status_code == 422
    assert reply.json()["error"]["message"].startswith("rows[1]: image")


async def test_a_picture_that_is_none_is_refused_before_anything_is_played(gym: TrainerGym) -> None:
    bad = make_row("b")
    picture = {"type": "input_image", "image_url": "data:image/png;base64,bm8gcGljdHVyZQ=="}
    bad["responses_create_params"]["input"][0]["content"].append(picture)
    reply = await gym.http.post("/v1/rollouts", json={"rows": [make_row("a"), bad]})
    assert (reply.status_code, reply.json()["error"]["message"][:16]) == (422, "rows[1]: an imag")
    assert (await gym.http.post("/environments/echo/run", json=bad)).status_code == 422
    assert gym.inside.endpoint.requests == []


@pytest.mark.parametrize("version", [b"true", b'"7"', b"7.0", b"-1", b"9223372036854775808"])
async def test_a_version_is_a_whole_number(gym: TrainerGym, version: bytes) -> None:
    reply = await gym.http.put("/v1/policy/version", content=b'{"version": ' + version + b"}")
    assert reply.status_code == 422
    await gym.client.set_version(2**63 - 1)


async def test_a_row_that_stands_twice_is_two_groups(gym: TrainerGym) -> None:
    lines = await lines_of(gym, rows=[make_row("a"), make_row("b"), make_row("a")], num_repeats=2, group={})
    groups = {line.task_index: line.advantage_group for line in rollouts(lines)}
    assert len(set(groups.values())) == 3
    assert groups[2] == f"{groups[0]}-2"
    assert [sample.advantage_group for line in rollouts(lines) for sample in line.samples] == [
        line.advantage_group for line in rollouts(lines)
    ]
    assert len(rollouts(lines)) == 6


async def test_an_endpoint_without_token_ids_is_refused_unless_none_are_wanted(gym: TrainerGym) -> None:
    gym.inside.endpoint.gives_token_ids = False
    reply = await gym.http.post("/v1/rollouts", json={"rows": [make_row("a")]})
    assert (reply.status_code, "gives no token ids" in reply.text) == (422, True)
    (line, end) = await lines_of(gym, rows=[make_row("a")], require_token_ids=False)
    assert isinstance(line, RolloutLine)
    assert isinstance(end, EndLine)
    assert (line.reward, line.samples, line.no_samples, end.without_samples) == (
        1.0,
        [],
        "no_token_ids",
        {"no_token_ids": 1},
    )


async def test_an_endpoint_that_does_not_answer_is_a_status(gym: TrainerGym, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_core.launch.policy_check.CHECK_PAUSES_S", ())
    gym.inside.endpoint.fail_always(Fault.SERVER_ERROR)
    reply = await gym.http.post("/v1/rollouts", json={"rows": [make_row("a")]})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (503, FailureKind.MODEL_UNAVAILABLE)


async def test_errors_reach_the_client_as_their_classes(gym: TrainerGym) -> None:
    with pytest.raises(InvalidTask, match=r"rows\[0\]"):
        await lines_of(gym, rows=[{"x": 1}])
    with pytest.raises(SessionError):
        await gym.client.image("0" * 64)
    with pytest.raises(InvalidTask):
        await gym.client.run("chess", make_row("a"))


async def test_an_unknown_environment_in_the_path_is_not_found(gym: TrainerGym) -> None:
    reply = await gym.http.post("/environments/chess/run", json=make_row("a"))
    assert (reply.status_code, "there are: echo" in reply.json()["error"]["message"]) == (404, True)


async def test_samples_is_true_or_false(gym: TrainerGym) -> None:
    assert (await gym.http.post("/environments/echo/run?samples=yes", json=make_row("a"))).status_code == 422


# -- the same request again -------------------------


async def test_the_same_key_replays_and_another_body_is_refused(gym: TrainerGym) -> None:
    asked: JsonObject = {"rows": [make_row("a")], "num_repeats": 2}
    headers = {"Idempotency-Key": "step-1"}
    first = await gym.http.post("/v1/rollouts", json=asked, headers=headers)
    n_played = len(gym.inside.endpoint.requests)
    second = await gym.http.post("/v1/rollouts", json=asked, headers=headers)
    assert first.text.splitlines()[:2] == second.text.splitlines()[:2]
    assert len(gym.inside.endpoint.requests) == n_played, "neither is the endpoint looked at nor anything played"
    other = await gym.http.post("/v1/rollouts", json={**asked, "num_repeats": 3}, headers=headers)
    assert (other.status_code, other.json()["error"]["kind"]) == (409, FailureKind.SESSION_CONFLICT)


async def test_a_refused_request_does_not_use_up_its_key(gym: TrainerGym) -> None:
    headers = {"Idempotency-Key": "step-1"}
    assert (await gym.http.post("/v1/rollouts", json={"rows": [{}]}, headers=headers)).status_code == 422
    assert (await gym.http.post("/v1/rollouts", json={"rows": [make_row("a")]}, headers=headers)).status_code == 200


async def test_a_refused_request_leaves_no_folder_and_keeps_that_of_an_accepted_one(gym: TrainerGym) -> None:
    headers = {"Idempotency-Key": "step-1"}
    await gym.http.post("/v1/rollouts", json={"rows": [make_row("a")]}, headers=headers)
    kept = list((gym.state / "requests").iterdir())
    refused = {"rows": [make_row("b", image=True), {}]}
    assert (await gym.http.post("/v1/rollouts", json=refused)).status_code == 422
    assert (await gym.http.post("/v1/rollouts", json=refused, headers=headers)).status_code == 409
    assert list((gym.state / "requests").iterdir()) == kept
    assert len(kept) == 1


async def test_another_request_with_the_key_of_a_live_stream_leaves_that_alone(gym: TrainerGym) -> None:
    looks = await after_the_look(gym, Fault.HANG)
    request = RolloutsRequest(rows=[make_row("a")], idempotency_key="k")
    async with gym.http.stream("POST", "/v1/rollouts", content=request.to_json()):
        await eventually(lambda: len(gym.inside.endpoint.requests) == looks + 1)
        other = RolloutsRequest(rows=[make_row("b")], idempotency_key="k")
        assert (await gym.http.post("/v1/rollouts", content=other.to_json())).status_code == 409
        assert gym.inside.endpoint.broken_off == 0


async def test_a_second_stream_of_a_key_takes_over_and_the_first_one_is_told(gym: TrainerGym) -> None:
    looks = await after_the_look(gym, Fault.HANG)
    request = RolloutsRequest(rows=[make_row("a")], idempotency_key="k")
    async with gym.http.stream("POST", "/v1/rollouts", content=request.to_json()) as first:
        await eventually(lambda: len(gym.inside.endpoint.requests) == looks + 1)
        (line, end) = await lines_of(gym, rows=[make_row("a")], idempotency_key="k")
        told = [TRAINER_LINE.validate_json(raw) async for raw in first.aiter_lines()]
    assert isinstance(line, RolloutLine)
    assert isinstance(end, EndLine)
    assert (line.reward, end.replayed) == (1.0, 0)
    assert isinstance(told[-1], ErrorLine)
    assert told[-1].kind == "superseded"


async def test_a_caller_that_leaves_ends_its_episodes_and_their_sessions(gym: TrainerGym) -> None:
    looks = await after_the_look(gym, *[Fault.HANG] * 4)
    request = RolloutsRequest(split="train", num_samples_in_parallel=4)
    async with gym.http.stream("POST", "/v1/rollouts", content=request.to_json()):
        await eventually(lambda: len(gym.inside.endpoint.requests) == looks + 4)
        assert len(gym.inside.resources.sessions) == 4
    await eventually(lambda: gym.inside.endpoint.broken_off == 4)
    await eventually(lambda: len(gym.inside.resources.sessions) == 0)


async def test_leaving_the_clients_loop_ends_the_rollouts(gym: TrainerGym) -> None:
    await after_the_look(gym, Fault.NONE, *[Fault.HANG] * 3)
    asked = RolloutsRequest(split="train", num_samples_in_parallel=4)
    async with aclosing(gym.client.rollouts(asked)) as lines:  # type: ignore[type-var]  # an async generator it is
        async for _ in lines:
            break
    await eventually(lambda: gym.inside.endpoint.broken_off == 3)


async def test_the_client_goes_on_over_a_broken_connection_without_a_line_twice(tmp_path: Path) -> None:
    async with trainer_gym(tmp_path, tasks=12) as gym, breaking_relay(gym.url, after_bytes=12_000) as relay:
        gym.inside.endpoint.rule = lambda _: "teapot"
        async with GymClient(relay.url, HEAD_TOKEN) as client:
            asked = RolloutsRequest(split="train", num_samples_in_parallel=2)
            lines = [line async for line in client.rollouts(asked)]
        end = lines[-1]
        assert relay.broken == 1
        assert sorted(line.task_index for line in lines if isinstance(line, RolloutLine)) == list(range(12))
        assert isinstance(end, EndLine)
        assert end.replayed > 0


# -- its description -------------------------


async def test_routes_lines_and_samples_are_described_and_every_reference_leads_somewhere(gym: TrainerGym) -> None:
    described = (await gym.http.get("/openapi.json")).json()
    schemas = described["components"]["schemas"]
    assert schemas.keys() >= {"RolloutsRequest", "TrainingSample", "RolloutLine", "GroupLine", "EndLine", "ErrorLine"}
    route = described["paths"]["/v1/rollouts"]["post"]
    assert route["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/RolloutsRequest")
    assert len(route["responses"]["200"]["content"]["application/x-ndjson"]["schema"]["oneOf"]) == 5
    assert {"/v1/assets/{sha256}", "/environments/{name}/run"} <= described["paths"].keys()
    text = json.dumps(described)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= schemas.keys()
    assert "#/$defs/" not in text


@pytest.mark.parametrize(
    ("of", "most"),
    [
        ("RolloutsRequest", {"start": 10**9, "limit": 10**9, "num_repeats": 1024, "num_samples_in_parallel": 4096,
                             "max_rollout_attempts": 100, "max_staleness": 2**63 - 1}),
        ("DynamicSampling", {"groups": 4096, "max_prompts": 2**63 - 1}),
        ("Oversampling", {"prompts": 4096, "max_prompts": 2**63 - 1, "max_tokens": 2**63 - 1}),
    ],
)  # fmt: skip
async def test_each_whole_number_of_a_request_has_its_limit_in_the_description(
    gym: TrainerGym, of: str, most: dict[str, int]
) -> None:
    described = (await gym.http.get("/openapi.json")).json()
    properties = described["components"]["schemas"][of]["properties"]
    numbers = {
        name: part["maximum"]
        for name, field in properties.items()
        for part in [field, *field.get("anyOf", [])]
        if part.get("type") == "integer"
    }
    assert numbers == most
