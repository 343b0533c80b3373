"""What is told of a budget that is used up."""

import pytest

from agent_servers.tool_agent.budgets import BUDGET_WORDS, Ending, budget_failure


@pytest.mark.parametrize("ending", BUDGET_WORDS)
def test_the_reason_says_that_a_call_stood_there_and_not_that_no_answer_did(ending: Ending) -> None:
    assert str(budget_failure(ending)) == f"{BUDGET_WORDS[ending]}, and the model's last message is a call"
