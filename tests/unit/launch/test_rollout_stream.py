"""A trainer's stream: its order, its end, how it waits for its reader, and what a second one finds."""

import asyncio
from pathlib import Path

import pytest

from gym_core.errors import FailureKind
from gym_core.launch import rollout_stream
from gym_core.launch.rollout_stream import MAX_UNDELIVERED
from gym_core.types.rollout import Completed, EpisodeResult, RunRequest
from gym_core.types.trainer import AliveLine, EndLine, ErrorLine, GroupLine, RolloutLine
from gym_core.types.verification import Verification
from tests.fakes.rollouts import completed, failed
from tests.fakes.streams import Line, StreamBench, read, rewards, until


@pytest.fixture
def bench(tmp_path: Path) -> StreamBench:
    return StreamBench(tmp_path)


def rollouts(lines: list[Line]) -> list[RolloutLine]:
    return [line for line in lines if isinstance(line, RolloutLine)]


def groups(lines: list[Line]) -> list[GroupLine]:
    return [line for line in lines if isinstance(line, GroupLine)]


def end(lines: list[Line]) -> EndLine:
    last = lines[-1]
    assert isinstance(last, EndLine), last
    return last


async def never(request: RunRequest, attempt: int) -> EpisodeResult:
    await asyncio.Event().wait()
    raise AssertionError


# -- order and end ---------------


async def test_lines_come_in_the_order_in_which_rollouts_end(bench: StreamBench) -> None:
    gates = [asyncio.Event() for _ in range(4)]

    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        await gates[request.task_index].wait()
        return completed(request, attempt)

    stream = bench.open(play)
    order = []
    for index in (2, 0, 3, 1):
        gates[index].set()
        (line,) = rollouts(await read(stream, 1))
        order.append(line.task_index)
    assert order == [2, 0, 3, 1]
    assert end(await read(stream)).rollouts == 4
    await stream.aclose()


async def test_a_line_holds_the_row_and_its_samples_and_the_end_counts_them(bench: StreamBench) -> None:
    lines = await bench.lines(rewards([1.0], [0.0], [1.0], [0.0]))
    first = rollouts(lines)[0]
    assert first.row is not None
    assert first.row["_gym_sequences"]["sampled_tokens"] == 2
    assert (first.samples[0].reward, first.samples[0].reward_components) == (1.0, {"accuracy": 1.0})
    last = end(lines)
    assert (last.prompts, last.rollouts, last.measured, last.samples, last.trainable_tokens) == (4, 4, 4, 4, 8)
    assert (last.mean_reward, last.stopped_by, last.unfinished) == (0.5, "prompts", 0)
    assert last.sequences is not None
    assert (last.sequences.rollouts, last.sequences.drifted_share) == (4, 0.0)


async def test_rows_and_samples_are_left_out_where_nobody_wants_them(bench: StreamBench) -> None:
    lines = await bench.lines(include_row=False, samples=False)
    assert {(line.row is None, len(line.samples)) for line in rollouts(lines)} == {(True, 0)}


async def test_a_masked_rollout_is_a_line_with_a_null_reward(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        return failed(request, attempt, kind=FailureKind.VERIFIER_ERROR)

    lines = await bench.lines(play)
    assert {(line.reward, line.end_reason) for line in rollouts(lines)} == {(None, FailureKind.VERIFIER_ERROR)}
    assert (end(lines).masked, end(lines).failures, end(lines).mean_reward) == (4, {"verifier_error": 4}, None)


async def test_when_everything_is_masked_the_stream_ends_with_an_error_line(tmp_path: Path) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        return failed(request, attempt, kind=FailureKind.VERIFIER_ERROR)

    last = (await StreamBench(tmp_path, tasks=40).lines(play))[-1]
    assert isinstance(last, ErrorLine)
    assert (last.kind, "verifier_error" in last.message) == ("breakdown", True)


async def test_a_fault_of_ours_in_the_stream_is_an_error_line_without_its_text(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        raise RuntimeError("secret detail")

    last = (await bench.lines(play))[-1]
    assert isinstance(last, ErrorLine)
    assert (last.kind, "secret" in last.message) == ("internal", False)


async def test_a_journal_that_cannot_be_opened_is_no_fault_of_the_request(bench: StreamBench) -> None:
    (bench.folder / "rollouts.jsonl").mkdir()
    (last,) = await bench.lines()
    assert isinstance(last, ErrorLine)
    assert (last.kind, "rollouts.jsonl" in last.message) == (FailureKind.PERSISTENCE_FAILED, True)


async def test_a_journal_that_cannot_be_read_any_more_ends_the_stream_with_an_error_line(bench: StreamBench) -> None:
    journal = bench.folder / "rollouts.jsonl"
    stream = bench.open()
    await read(stream, 1)
    await until(lambda: journal.read_bytes().count(b"\n") == 4)
    journal.write_bytes(b"")
    (last,) = await read(stream)
    await stream.aclose()
    assert isinstance(last, ErrorLine)
    assert last.kind == FailureKind.PERSISTENCE_FAILED


async def test_a_silent_stream_says_that_it_is_alive(bench: StreamBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_stream, "ALIVE_EVERY_S", 0.02)
    stream = bench.open(never)
    lines = await read(stream, 2)
    await stream.aclose()
    assert all(isinstance(line, AliveLine) for line in lines)
    assert lines[-1] == AliveLine(running=4, finished=0)


async def test_at_the_time_limit_the_stream_ends_with_what_is_there(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        return await (never if request.task_index == 3 else bench_right)(request, attempt)

    async def bench_right(request: RunRequest, attempt: int) -> EpisodeResult:
        return completed(request, attempt)

    lines = await bench.lines(play, time_limit_s=0.3)
    assert sorted(line.task_index for line in rollouts(lines)) == [0, 1, 2]
    assert (end(lines).stopped_by, end(lines).unfinished) == ("time", 1)


# -- the reader -------------------------


async def test_a_client_that_does_not_read_stops_new_episodes_from_starting(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path, tasks=200)
    stream = bench.open(num_samples_in_parallel=4)
    await read(stream, 1)
    await until(lambda: len(bench.played) >= MAX_UNDELIVERED)
    for _ in range(50):
        await asyncio.sleep(0.001)
    most = 1 + MAX_UNDELIVERED + 2 * 4
    assert len(bench.played) <= most
    assert len(rollouts(await read(stream))) == 199, "it goes on when it is read"
    await stream.aclose()


async def test_closing_cancels_what_runs_and_waits_until_it_is_closed(bench: StreamBench) -> None:
    cancelled = []

    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        try:
            return await never(request, attempt)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            cancelled.append(request.task_index)
            raise

    stream = bench.open(play)
    reading = asyncio.create_task(read(stream, 1))
    await until(lambda: len(bench.played) == 4)
    reading.cancel()
    await stream.aclose()
    assert (sorted(cancelled), bench.closed) == ([0, 1, 2, 3], [True])


async def test_a_stream_that_was_never_read_can_be_closed_twice(bench: StreamBench) -> None:
    stream = bench.open()
    await stream.aclose()
    await stream.aclose()
    assert (bench.played, bench.closed) == ([], [True])


# -- again with the same key -------------------------


async def test_a_second_stream_replays_what_is_finished_and_plays_the_rest(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        if request.task_index > 1:
            return await never(request, attempt)
        return completed(request, attempt)

    first = bench.open(play)
    seen = rollouts(await read(first, 2))
    await first.aclose()
    bench.played.clear()
    lines = await bench.lines()
    assert sorted(bench.played) == [(2, 0), (3, 0)]
    assert rollouts(lines)[:2] == seen, "the very same lines"
    assert (end(lines).rollouts, end(lines).replayed) == (4, 2)


async def test_a_torn_last_line_is_played_again(bench: StreamBench) -> None:
    await bench.lines()
    path = bench.folder / "rollouts.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    bench.played.clear()
    lines = await bench.lines()
    assert (len(bench.played), end(lines).replayed, len(rollouts(lines))) == (1, 3, 4)


async def test_groups_of_a_second_stream_are_those_of_the_first(bench: StreamBench) -> None:
    asked = {"num_repeats": 2, "group": {"advantage": "normalized"}}
    play = rewards([1, 0], [1, 1], [0, 0], [0, 1])
    first = await bench.lines(play, **asked)
    bench.played.clear()
    second = await bench.lines(play, **asked)
    assert bench.played == []
    assert sorted(map(str, rollouts(first))) == sorted(map(str, rollouts(second)))


async def test_a_stream_that_is_taken_over_says_so_and_ends(bench: StreamBench) -> None:
    stream = bench.open(never)
    reading = asyncio.create_task(read(stream))
    await until(lambda: len(bench.played) == 4)
    await stream.stop(ErrorLine(kind="superseded", message="x"))
    assert await reading == [ErrorLine(kind="superseded", message="x")]


# -- groups -------------------------


async def test_lines_of_a_group_come_together_with_advantages_and_then_its_figures(bench: StreamBench) -> None:
    lines = await bench.lines(rewards([1, 0], [1, 1], [0, 0], [0, 1]), num_repeats=2, group={})
    for position, line in enumerate(lines):
        if isinstance(line, GroupLine):
            members = lines[position - 2 : position]
            assert {getattr(member, "task_index", None) for member in members} == {line.task_index}
    by_task = {line.task_index: line for line in groups(lines)}
    assert (by_task[0].statistics.mean, by_task[0].statistics.std, by_task[0].kept) == (0.5, 0.5, 2)
    first = next(line for line in rollouts(lines) if (line.task_index, line.repeat) == (0, 0))
    assert (first.advantage, first.samples[0].advantage) == (0.5, 0.5)
    assert end(lines).groups == {"kept": 4}


async def test_a_group_without_variance_is_sent_without_samples(bench: StreamBench) -> None:
    play = rewards([1, 0], [1, 1], [0, 0], [0, 1])
    lines = await bench.lines(play, num_repeats=2, group={"drop_zero_variance": True})
    dropped = [line for line in rollouts(lines) if line.dropped]
    assert {(line.task_index, line.dropped, len(line.samples)) for line in dropped} == {
        (1, "zero_variance", 0),
        (2, "zero_variance", 0),
    }
    assert {line.task_index: line.reason for line in groups(lines)} == {
        0: None, 1: "zero_variance", 2: "zero_variance", 3: None,
    }  # fmt: skip
    assert (end(lines).groups, end(lines).dropped) == ({"kept": 2, "zero_variance": 2}, 4)


async def test_dynamic_sampling_stops_when_it_has_its_groups(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path, tasks=6)
    play = rewards([1, 1], [1, 0], [0, 0], [0, 1], [1, 0], [1, 0])
    asked = {"num_repeats": 2, "group": {"selection": {"method": "dynamic", "groups": 2}}}
    lines = await bench.lines(play, **asked)
    assert end(lines).stopped_by == "enough"
    assert (end(lines).groups["kept"], end(lines).prompts) == (2, 4)
    assert {task for task, _ in bench.played} == {0, 1, 2, 3}


async def test_dynamic_sampling_says_when_its_budget_is_used_up(bench: StreamBench) -> None:
    asked = {"num_repeats": 2, "group": {"selection": {"method": "dynamic", "groups": 2, "max_prompts": 3}}}
    lines = await bench.lines(rewards([1, 1], [1, 0], [0, 0], [0, 1]), **asked)
    assert (end(lines).stopped_by, end(lines).groups) == ("budget", {"kept": 1, "zero_variance": 2})


async def test_oversampling_keeps_the_groups_with_the_highest_deviation(bench: StreamBench) -> None:
    # Deviations: 0.433, 0, 0.5, 0.433. B = 1 prompt of G = 4, twice as many are played a round: tasks 0 and 1 give one
    # group of four rollouts, which is the batch.
    play = rewards([1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0])
    selection = {"method": "oversample", "prompts": 1, "needs_image": False}
    lines = await bench.lines(play, num_repeats=4, group={"selection": selection})
    assert [(line.task_index, line.kept, line.reason) for line in groups(lines)] == [
        (1, 0, "zero_variance"),
        (0, 4, None),
    ]
    # Four times as many: every task is played, and only the one with the highest deviation stays.
    lines = await bench.lines(play, num_repeats=4, group={"selection": selection | {"factor": 4}})
    assert [(line.task_index, line.kept, line.reason) for line in groups(lines)][1:] == [
        (2, 4, None),
        (0, 0, "ranked_out"),
        (3, 0, "ranked_out"),
    ]
    assert end(lines).dropped == 12


async def test_rollouts_without_a_picture_are_broken_for_oversampling(bench: StreamBench) -> None:
    selection = {"method": "oversample", "prompts": 1}
    lines = await bench.lines(rewards([1, 0], [1, 1], [0, 0], [0, 1]), num_repeats=2, group={"selection": selection})
    assert {line.dropped for line in rollouts(lines)} == {"broken:no_image", "zero_variance"}
    assert end(lines).stopped_by == "prompts"


async def test_a_tool_bonus_and_a_weight_are_on_the_samples_and_not_in_the_row(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        result = completed(request, attempt)
        calls = {"zoom": 2} if request.key.repeat else {}
        agent = result.evidence.agent.model_copy(update={"tool_calls": calls})
        return result.model_copy(update={"evidence": result.evidence.model_copy(update={"agent": agent})})

    lines = await bench.lines(play, num_repeats=2, group={"tool_bonus": 0.1, "no_tool_weight": 0.25})
    with_tools = next(line for line in rollouts(lines) if line.repeat == 1)
    without = next(line for line in rollouts(lines) if line.repeat == 0)
    assert (with_tools.samples[0].reward, with_tools.samples[0].weight) == (1.2, 1.0)
    assert with_tools.samples[0].reward_components == {"accuracy": 1.0, "tool_bonus": 0.2}
    assert (without.samples[0].reward, without.samples[0].weight) == (1.0, 0.25)
    assert with_tools.row is not None
    assert with_tools.row["reward"] == 1.0
    assert with_tools.advantage == pytest.approx(0.1)


async def test_calls_of_no_tool_earn_no_bonus_and_count_as_no_tool_use(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        result = completed(request, attempt)
        calls = {"unknown_tool": 3} | ({"zoom": 1} if request.key.repeat else {})
        agent = result.evidence.agent.model_copy(update={"tool_calls": calls})
        return result.model_copy(update={"evidence": result.evidence.model_copy(update={"agent": agent})})

    lines = await bench.lines(play, num_repeats=2, group={"tool_bonus": 0.1, "no_tool_weight": 0.25})
    found = {(line.repeat, line.reward, line.tool_calls, line.samples[0].weight) for line in rollouts(lines)}
    assert found == {(0, 1.0, 0, 0.25), (1, 1.1, 1, 1.0)}


async def test_shaping_is_in_lines_samples_and_advantages_and_in_no_score(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        result = completed(request, attempt)
        assert isinstance(result, Completed)
        shaping = {"tool_use": 0.1 * request.key.repeat, "late": -0.5}
        return result.model_copy(update={"verification": Verification(reward=1.0, shaping=shaping)})

    lines = await bench.lines(play, num_repeats=3, group={"tool_bonus": 9})
    line = next(line for line in rollouts(lines) if line.repeat == 2)
    assert line.reward == pytest.approx(0.7)
    assert line.advantage == pytest.approx(0.1)
    assert line.reward_components == {"accuracy": 1.0, "tool_use": 0.2, "late": -0.5}
    (sample,) = line.samples
    assert (sample.reward, sample.reward_components) == (line.reward, line.reward_components)
    assert line.row is not None
    assert (line.row["reward"], line.row["reward_shaping"]) == (1.0, {"tool_use": 0.2, "late": -0.5})
    assert end(lines).mean_reward == 1.0
    assert groups(lines)[0].statistics.mean == pytest.approx(0.6)


async def test_dynamic_sampling_drops_an_all_right_group_whatever_its_tool_calls(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        reward = 1.0 if request.task_index < 3 else float(request.key.repeat)
        result = completed(request, attempt, reward=reward)
        agent = result.evidence.agent.model_copy(update={"tool_calls": {"zoom": request.key.repeat}})
        return result.model_copy(update={"evidence": result.evidence.model_copy(update={"agent": agent})})

    selection = {"method": "dynamic", "groups": 1}
    lines = await bench.lines(play, num_repeats=2, group={"tool_bonus": 0.1, "selection": selection})
    assert (end(lines).groups, end(lines).stopped_by) == ({"zero_variance": 3, "kept": 1}, "enough")
    kept = next(line for line in groups(lines) if line.kept)
    assert kept.task_index == 3
    assert kept.statistics.max == pytest.approx(1.1), "advantages are of the shaped reward"


async def test_stale_samples_are_masked_and_in_no_baseline(bench: StreamBench) -> None:
    bench.version = 3  # the samples are of version 1
    asked = {"num_repeats": 2, "group": {}}
    play = rewards(*[[1, 0]] * 4)
    lines = await bench.lines(play, max_staleness=1, **asked)
    sample = rollouts(lines)[0].samples[0]
    assert (sample.mask, sample.mask_reason, sample.advantage) == (True, "stale", None)
    assert {line.reason for line in groups(lines)} == {"too_few_measured"}
    fresh = await bench.lines(play, max_staleness=2, **asked)
    assert rollouts(fresh)[0].samples[0].mask is False


async def test_with_a_limit_of_staleness_an_unknown_version_is_no_fresh_one(bench: StreamBench) -> None:
    bench.version = None
    lines = await bench.lines(rewards(*[[1, 0]] * 4), num_repeats=2, group={}, max_staleness=100)
    sample = rollouts(lines)[0].samples[0]
    assert (sample.mask, sample.mask_reason, sample.advantage) == (True, "policy_version_unknown", None)
    assert {line.reason for line in groups(lines)} == {"too_few_measured"}
    assert rollouts(lines)[0].unmeasured == "policy_version_unknown"
    assert (end(lines).groups, end(lines).trainable_tokens) == ({"too_few_measured": 4}, 0)
    without = await bench.lines(rewards(*[[1, 0]] * 4), num_repeats=2, group={})
    assert rollouts(without)[0].samples[0].mask is False


async def test_what_is_dropped_for_want_of_measured_rollouts_says_why_they_are_none(bench: StreamBench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        if request.task_index == 0:
            return failed(request, attempt, kind=FailureKind.VERIFIER_ERROR)
        return completed(request, attempt)

    asked = {"num_repeats": 2, "group": {"drop_zero_variance": True}, "max_staleness": 0}
    lines = await bench.lines(play, **asked)
    told = {(line.task_index, line.dropped, line.unmeasured, len(line.samples)) for line in rollouts(lines)}
    unknown = "policy_version_unknown"
    assert told == {
        (0, "too_few_measured", "masked", 0),
        *((index, "too_few_measured", unknown, 0) for index in (1, 2, 3)),
    }
    assert {line.task_index: line.unmeasured for line in groups(lines)} == {
        0: {"masked": 2}, 1: {unknown: 2}, 2: {unknown: 2}, 3: {unknown: 2},
    }  # fmt: skip
    bench.version = 1
    fresh = await bench.lines(play, **asked)
    assert {line.task_index: line.unmeasured for line in groups(fresh)}[1] == {}
