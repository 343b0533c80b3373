"""`/aggregate_metrics` speaks NeMo's rows and words."""

from gym_core.servers.aggregate import AggregateRequest, aggregate_rows


async def test_flat_rows_become_groups_of_numbers_without_the_masked() -> None:
    rows = [
        {"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0, "response": {"anything": 1}},
        {"_ng_task_index": 0, "_ng_rollout_index": 1, "reward": 0.0},
        {"_ng_task_index": 1, "_ng_rollout_index": 0, "reward": 0.0},
        {
            "_ng_task_index": 1,
            "_ng_rollout_index": 1,
            "reward": 0.0,
            "mask_sample": True,
            "failure_kind": "judge_failed",
        },
    ]
    reply = await aggregate_rows(AggregateRequest(verify_responses=rows))
    assert reply.key_metrics["mean/reward"] == 1 / 3
    assert (reply.agent_metrics["coverage/measured"], reply.agent_metrics["coverage/masked"]) == (3, 1)
    assert [(g["_ng_task_index"], g["num_rollouts"], g["mean/reward"]) for g in reply.group_level_metrics] == [
        (0, 2, 0.5),
        (1, 1, 0.0),
    ]
    assert [(g["_ng_rollout_index"], g["mean/reward"]) for g in reply.repeat_level_metrics] == [(0, 0.5), (1, 0.0)]


async def test_rows_that_do_not_say_which_repeat_they_are_are_numbered_as_they_come() -> None:
    rows = [{"_ng_task_index": task, "reward": reward} for task, reward in ((0, 1.0), (0, 0.0), (1, 1.0), (1, 1.0))]
    reply = await aggregate_rows(AggregateRequest(verify_responses=rows))
    assert (reply.key_metrics["avg@2"], reply.key_metrics["avg@2/std"], reply.key_metrics["pass@2"]) == (
        0.75,
        0.25,
        1.0,
    )
    assert [(r["_ng_rollout_index"], r["mean/reward"]) for r in reply.repeat_level_metrics] == [(0, 1.0), (1, 0.5)]
