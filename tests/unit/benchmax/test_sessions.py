"""Sessions of odd environment classes: what each comes to, and that every context that was entered is left."""

import asyncio
from pathlib import Path

import pytest

from gym_core.errors import ConfigError, EpisodeError, FailureKind, SessionError
from gym_core.rollout.plan import plan_rollouts
from gym_core.types.responses import FunctionCall, FunctionCallOutput, OutputItem
from gym_core.types.rollout import RolloutRecord
from gym_core.types.tool import ToolRequest
from gym_core.types.wire import JsonObject
from tests.fakes.rollouts import make_record, make_task
from tests.unit.benchmax.served import TASK_DATA, Served, open_gate, said, served, stopped


async def broken(gym: Served, arguments: str = '{"n": 21}') -> EpisodeError:
    with pytest.raises(EpisodeError) as caught:
        await gym.call(arguments)
    return caught.value


# -- the life of a context ---------------------------------------------------


async def test_a_context_is_entered_at_seed_and_left_when_the_session_closes(tmp_path: Path) -> None:
    async with served(tmp_path, "Plain") as gym:
        await gym.seed()
        assert gym.journal == ["enter e1"]
        assert await gym.text() == "42"
        verification = await gym.grade(said("42"))
        assert (verification.reward, gym.journal) == (1.0, ["enter e1", "reward finished"])
        await gym.close()
        await gym.close()
        assert gym.journal == ["enter e1", "reward finished", "leave e1"]
    assert gym.journal[-1] == "closed"


async def test_every_context_is_left_when_the_server_stops(tmp_path: Path) -> None:
    async with served(tmp_path, "Plain") as gym:
        await asyncio.gather(*(gym.seed(f"s{n}") for n in range(5)))
    assert sorted(gym.journal) == ["closed", *["enter e1"] * 5, *["leave e1"] * 5]
    assert gym.journal[-1] == "closed"


async def test_an_idle_session_is_left_by_the_reaper(tmp_path: Path) -> None:
    async with served(tmp_path, "Plain", session_idle_s=0.01) as gym:
        await gym.seed()
        async with asyncio.timeout(10):
            while len(gym.server.sessions):  # noqa: ASYNC110 - the reaper tells nobody
                await asyncio.sleep(0.005)
        assert gym.journal == ["enter e1", "leave e1"]


async def test_a_session_that_closes_while_a_tool_runs_is_left(tmp_path: Path) -> None:
    async with served(tmp_path, "Hangs") as gym:
        await gym.seed()
        calling = asyncio.create_task(gym.call())
        await asyncio.sleep(0)
        await gym.close()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert gym.journal == ["enter e1", "leave e1"]


async def test_a_seeding_caller_that_leaves_loses_no_context(tmp_path: Path) -> None:
    async with served(tmp_path, "Plain") as gym:
        seeding = asyncio.create_task(gym.seed())
        await asyncio.sleep(0)
        seeding.cancel()
        await asyncio.wait({seeding})
        await gym.close()
        assert gym.journal in (["enter e1", "leave e1"], [])


async def test_one_task_enters_runs_and_leaves(tmp_path: Path) -> None:
    async with served(tmp_path, "Recalls") as gym:
        await gym.seed()
        await gym.seed("s2", TASK_DATA | {"example_id": "e2"})
        assert (await gym.text(), await gym.text(session_id="s2")) == ("for e1", "for e2")
        assert (await gym.grade(said("x"))).reward == 1.0
        assert (await gym.grade(said("x"), "s2")).reward == 0.0


async def test_a_context_that_cannot_be_entered_masks_and_leaves_no_session(tmp_path: Path) -> None:
    async with served(tmp_path, "RaisesAtEntry") as gym:
        with pytest.raises(EpisodeError, match="rollout_context: OSError: no room") as caught:
            await gym.seed()
        assert (caught.value.kind, len(gym.server.sessions)) == (FailureKind.VERIFIER_ERROR, 0)


async def test_a_context_that_hangs_at_entry_is_given_up(tmp_path: Path) -> None:
    async with served(tmp_path, "HangsAtEntry", context_timeout_s=0.05) as gym:
        with pytest.raises(EpisodeError, match="no result in time"):
            await gym.seed()
    assert "given up" in gym.journal


async def test_a_context_that_raises_at_exit_changes_no_grade(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path, "RaisesAtExit") as gym:
        await gym.seed()
        assert (await gym.grade(said("42"))).reward == 1.0
        await gym.close()
        assert gym.journal == ["reward finished", "leaving"]
        assert "rollout_context raised" in caplog.messages
        await gym.seed("s2")  # and the next one is played


# -- tools -------------------------------------------------------------------


async def test_the_classs_tools_and_limits_are_what_an_agent_is_told(tmp_path: Path) -> None:
    limits: JsonObject = {"max_turns": 5, "max_tool_calls": 2}
    async with served(tmp_path, "Plain", arguments=limits) as gym:
        access = (await gym.seed()).resources_tools
        assert access is not None
        (function,) = access.functions
        assert (function.name, function.parameters["required"]) == ("double", ["n"])
        assert (access.max_turns, access.max_tool_calls, access.needs_images) == (5, 2, False)


async def test_a_class_without_tools_has_none(tmp_path: Path) -> None:
    async with served(tmp_path, "NoTools") as gym:
        access = (await gym.seed()).resources_tools
        assert access is not None
        assert access.functions == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{}", '"n" is a required property'),
        ('{"m": 3}', "there is no argument 'm'; \"n\" is a required property"),
        ('{"n": 1, "rollout_id": "mine"}', "there is no argument 'rollout_id'"),
        ('{"n": null}', 'n: it is not of type "integer"'),
        ("[21]", "should be an object"),
        ("{", "Invalid JSON"),
    ],
)
async def test_a_bad_call_is_told_to_the_model(tmp_path: Path, arguments: str, told: str) -> None:
    async with served(tmp_path, "Plain") as gym:
        await gym.seed()
        reply = await gym.call(arguments)
        assert reply.is_error
        assert reply.content[0].type == "input_text"
        assert told in reply.content[0].text
        assert await gym.text() == "42"  # and the rollout goes on


@pytest.mark.parametrize(
    ("points", "told"),
    [('["a"]', 'points.0: it is not of type "number"'), (f"[{4000 * '9'}, 1.5]", "a number is too large")],
)
async def test_a_model_masks_no_sample_by_what_a_schema_forbids_deep_inside(
    tmp_path: Path, points: str, told: str
) -> None:
    async with served(tmp_path, "TakesPoints") as gym:
        await gym.seed()
        assert told in await gym.text(f'{{"points": {points}}}')
        assert await gym.text('{"points": [1, 2.5]}') == "7.0"


@pytest.mark.parametrize("name", ["rollout_id", "tool_name", "self"])
async def test_a_model_masks_no_sample_by_a_name_that_the_hook_has_taken(tmp_path: Path, name: str) -> None:
    async with served(tmp_path, "TakesMore") as gym:
        await gym.seed()
        assert f"there is no argument '{name}'" in await gym.text(f'{{"n": 21, "{name}": "mine"}}')
        assert await gym.text('{"n": 21, "more": "mine"}') == "42"


async def test_a_call_of_no_tool_is_told_to_the_model(tmp_path: Path) -> None:
    async with served(tmp_path, "Plain") as gym:
        await gym.seed()
        assert "there is no tool 'halve'" in await gym.text(name="halve")


@pytest.mark.parametrize(
    ("class_name", "arguments", "why"),
    [
        ("SyncTool", {}, "the hook gave a str and nothing to await: write it with `async def`"),
        ("Gives", {"result": "x", "repeat": 100_000_000}, "100000000 characters: at most 1048576"),
        ("Gives", {"result": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}, "not a base64 image"),
        ("Gives", {"result": [{"type": "text"}]}, "a text part holds a NoneType"),
        ("Gives", {"result": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}, "image of"),
        ("Hangs", {}, "no result within 0.1 s"),
        ("Exits", {}, "SystemExit(3)"),
        ("Cancels", {}, "CancelledError()"),
        ("Fails", {"word": "search_error", "at": "tool"}, "search_error: it is so"),
    ],
)
async def test_a_tool_that_fails_masks_and_says_why(
    tmp_path: Path, class_name: str, arguments: JsonObject, why: str
) -> None:
    async with served(
        tmp_path, class_name, arguments=arguments, tool_timeout_s=0.1 if class_name == "Hangs" else 9
    ) as gym:
        await gym.seed()
        error = await broken(gym)
        assert (error.kind, why in str(error)) == (FailureKind.VERIFIER_ERROR, True), str(error)
        await gym.close()
        assert gym.journal == ["enter e1", "leave e1"]


async def test_a_tool_that_holds_on_is_left_behind_and_its_context_left_later(tmp_path: Path) -> None:
    async with served(tmp_path, "HangsOn", tool_timeout_s=0.05, context_timeout_s=0.2) as gym:
        await gym.seed()
        await broken(gym)
        await gym.seed("s2")  # the environment goes on with others
        await gym.close("s2")
        assert gym.journal[-1] == "leave e1"


async def test_a_tool_that_blocks_its_thread_stops_no_route(tmp_path: Path) -> None:
    async with served(tmp_path, "Blocks", tool_timeout_s=0.05, context_timeout_s=5) as gym:
        try:
            await gym.seed()
            assert "no result within" in str(await broken(gym))
            closing = asyncio.create_task(gym.close())
            await asyncio.sleep(0)
            with pytest.raises(SessionError, match="closed"):
                gym.server.sessions.find("s1")  # this loop is free
        finally:
            open_gate()
        await closing
        assert gym.journal == ["enter e1", "leave e1"]


async def test_a_failure_that_counts_as_an_end_ends_the_rollout_and_is_graded(tmp_path: Path) -> None:
    async with served(tmp_path, "Fails", arguments={"word": "tool_budget_exceeded", "at": "tool"}) as gym:
        await gym.seed()
        reply = await gym.call()
        assert reply.ends
        verification = await gym.grade(said("42"))
        assert verification.details["termination_reason"] == "tool_budget_exceeded"


async def test_the_same_call_again_runs_once(tmp_path: Path) -> None:
    async with served(tmp_path, "Plain") as gym:
        await gym.seed()
        session = gym.server.sessions.find("s1")
        asked = ToolRequest(call_id="c", name="double", arguments='{"n": 1}')
        replies = [await gym.server.call_tool(session, asked) for _ in range(2)]  # type: ignore[arg-type]  # as served.py
        assert replies[0] == replies[1]


# -- what is graded ------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ending", "reason"),
    [
        (FailureKind.NO_FINAL_ANSWER, "max_turns", "max_turns_exceeded"),
        (FailureKind.NO_FINAL_ANSWER, "tool_budget", "tool_budget_exceeded"),
        (FailureKind.NO_FINAL_ANSWER, "empty_answer", "finished"),
        (FailureKind.NO_FINAL_ANSWER, None, "finished"),
        (FailureKind.OUTPUT_CAP, "output_cap", "output_exceeded"),
        (FailureKind.CONTEXT_LIMIT, "context_limit", "context_exceeded"),
    ],
)
async def test_a_limits_partial_attempt_is_graded_by_the_class_and_keeps_its_failure(
    tmp_path: Path, kind: FailureKind, ending: str | None, reason: str
) -> None:
    async with served(tmp_path, "Rewards", arguments={"rewards": {"a": 0.25}}) as gym:
        await gym.seed()
        verification = await gym.grade(stopped(kind, ending))
        assert verification.failure is not None
        assert (verification.reward, verification.failure.kind) == (0.25, kind)
        assert verification.details == {"rollout_id": "s1", "rewards": {"a": 0.25}, "termination_reason": reason}


async def test_a_time_out_scores_zero_and_the_class_is_not_asked(tmp_path: Path) -> None:
    async with served(tmp_path, "Plain") as gym:
        await gym.seed()
        verification = await gym.grade(stopped(FailureKind.AGENT_TIMEOUT))
        assert (verification.reward, verification.details["termination_reason"]) == (0.0, "harness_timeout")
        assert gym.journal == ["enter e1"]


async def test_a_partial_attempt_without_rewards_scores_zero(tmp_path: Path) -> None:
    async with served(tmp_path, "Rewards") as gym:
        await gym.seed()
        assert (await gym.grade(stopped(FailureKind.OUTPUT_CAP))).reward == 0.0


@pytest.mark.parametrize(
    ("rewards", "why"),
    [
        (None, "needs a reward"),
        ({}, "needs a reward"),
        ({"a": "nan"}, "no finite number"),
        ({"a": "inf"}, "no finite number"),
        ({"a": True}, "True is a bool, and no int or float"),
        ({"a": "1"}, "1 is a str, and no int or float"),
        ({" ": 1}, "no name"),
        ([1.0], "no mapping"),
        (1.0, "no mapping"),
        ({"a": 0.7, "b": 0.7}, "not in [0, 1]"),
        ({"a": -0.1}, "not in [0, 1]"),
    ],
)
async def test_a_reward_that_is_none_masks(tmp_path: Path, rewards: object, why: str) -> None:
    async with served(tmp_path, "Rewards", arguments={"rewards": rewards}) as gym:
        await gym.seed()
        verification = await gym.grade(said("42"))
        assert verification.failure is not None
        assert (verification.reward, verification.failure.kind) == (None, FailureKind.VERIFIER_ERROR)
        assert why in verification.failure.reason


async def test_a_judges_failure_masks_as_one(tmp_path: Path) -> None:
    async with served(tmp_path, "Fails", arguments={"word": "judge_error", "at": "reward"}) as gym:
        await gym.seed()
        verification = await gym.grade(said("42"))
        assert verification.failure is not None
        assert (verification.reward, verification.failure.kind) == (None, FailureKind.JUDGE_FAILED)


async def test_hooks_that_grade_see_calls_and_results_as_chat_messages(tmp_path: Path) -> None:
    before: list[OutputItem] = [
        FunctionCall(call_id="1", name="double", arguments='{"n": 21}'),
        FunctionCallOutput(call_id="1", output="42"),
    ]
    async with served(tmp_path, "Plain") as gym:
        await gym.seed()
        assert (await gym.grade(said("42", *before))).reward == 1.0
        assert (await gym.grade(said("43", *before))).reward == 0.0


# -- classes that are refused ---------------------------------------------------


@pytest.mark.parametrize(
    ("class_name", "arguments", "why"),
    [
        ("Grouped", {}, "compute_group_rewards, which only"),
        ("OwnLoop", {}, "plays its own rollouts"),
        ("SyncTools", {}, "nothing to await"),
        ("OddTools", {}, "list_tools"),
        ("NotMade", {}, "KeyError: 'API_KEY'"),
        ("Plain", {"nonsense": 1}, "unexpected keyword argument"),
        ("Plain", {"max_turns": None}, "max_turns is None"),
        ("Plain", {"max_turns": True}, "max_turns: True is neither"),
        ("Plain", {"max_tool_calls": -1}, "max_tool_calls: -1 is neither"),
        ("Missing", {}, "no attribute 'Missing'"),
        ("NOT_A_CLASS", {}, "is no class"),
    ],
)
async def test_a_class_that_cannot_be_played_is_refused_at_the_start(
    tmp_path: Path, class_name: str, arguments: JsonObject, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with served(tmp_path, class_name, arguments=arguments):
            raise AssertionError("it was taken")
    assert why in str(caught.value)


# -- groups -----------------------------------------------------------------------


async def finished(gym: Served, *answers: str | None) -> list[RolloutRecord]:
    """Graded rollouts of one prompt, one after the other; None is one that a time-out ended."""
    task = make_task(0).model_copy(update={"task_data": TASK_DATA})
    found = []
    for n, request in enumerate(plan_rollouts([task], repeats=len(answers), environment="e")):
        answer = answers[n]
        response = stopped(FailureKind.AGENT_TIMEOUT) if answer is None else said(answer)
        await gym.seed(f"s{n}")
        record = make_record(request)
        evidence = record.evidence.model_copy(update={"response": response})
        verification = await gym.grade(response, f"s{n}")
        found.append(record.model_copy(update={"evidence": evidence, "verification": verification}))
        await gym.close(f"s{n}")
    return found


async def test_group_rewards_are_a_trainers_by_saying_so(tmp_path: Path) -> None:
    async with served(tmp_path, "Grouped", group_rewards="in_groups") as gym:
        assert gym.server.rewards_groups
        records = await finished(gym, "42", "41", None)
        assert records[0].verification.reward_components == {"right": 1.0}
        assert await gym.server.reward_group(records) == [{"rank": 1.0}, {"rank": 0.0}, {}]
        assert await gym.server.reward_group(records[2:]) == [{}]


async def test_group_rewards_are_by_the_id_that_the_other_hooks_had(tmp_path: Path) -> None:
    async with served(tmp_path, "StashesById", group_rewards="in_groups") as gym:
        records = await finished(gym, "42", None, "41")
        assert await gym.server.reward_group(records) == [{"met": 1.0}, {}, {"met": 1.0}]


async def test_a_class_without_group_rewards_is_asked_for_none(tmp_path: Path) -> None:
    async with served(tmp_path, "Plain", group_rewards="in_groups") as gym:
        assert not gym.server.rewards_groups


@pytest.mark.parametrize(
    ("gives", "why"),
    [
        ("others", "not those of its rollouts"),
        ("own names", "names of the rollout's own"),
        ("nan", "no finite number"),
        ("too much", r"'rank': 10.5 is not in \[-10, 10\]"),
        ("a list", "no mapping"),
    ],
)
async def test_group_rewards_that_are_none_are_refused(tmp_path: Path, gives: str, why: str) -> None:
    async with served(tmp_path, "Grouped", arguments={"gives": gives}, group_rewards="in_groups") as gym:
        with pytest.raises(ValueError, match=why):
            await gym.server.reward_group(await finished(gym, "42", "41"))


async def test_a_class_may_have_nothing_to_say_of_a_group(tmp_path: Path) -> None:
    async with served(tmp_path, "Grouped", arguments={"gives": "none"}, group_rewards="in_groups") as gym:
        assert await gym.server.reward_group(await finished(gym, "42", "41")) == [{}, {}]
