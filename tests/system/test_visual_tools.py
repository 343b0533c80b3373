"""The documented command of visual_tools, through real services."""

import json

import pytest

from tests.system.house import House

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_the_scripted_policy_counts_by_a_tool_and_is_right(house: House) -> None:
    output = house.folder / "out" / "x.jsonl"
    ended = await house.run(
        "eval", "run", "--environment", "visual_tools", "--model-type", "scripted_model", "++split=example",
        "--output", str(output),
    )  # fmt: skip
    assert ended.code == 0, ended.out + ended.err
    await house.all_gone()
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rows) == 4
    for row in rows:
        assert (row["reward"], row["tool_chain"], row["chain_order"]) == (1.0, ["count_color"], 1.0)
        assert len(row["_gym_capture"]["images"]) == 2
