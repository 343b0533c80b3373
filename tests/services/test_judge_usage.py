"""What a judge took, through a model server of ours: the endpoint's own count comes through."""

from pathlib import Path

from gym_core.judging.contract import GradingInput
from gym_core.judging.llm_judge import LlmJudge
from gym_core.judging.model_server_endpoint import ModelServerEndpoint
from tests.fakes.gym import in_process_gym
from tests.fakes.model import count_tokens

VERDICT = '{"verdict": "equivalent", "confidence": 1, "reason": "same"}'


async def test_the_endpoints_count_of_a_judges_call_comes_through_a_model_server(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: VERDICT
        judge = LlmJudge(ModelServerEndpoint(gym.servers.policy, model="judge", timeout_s=10))
        verdict = await judge.grade(GradingInput(question="How many?", gold="4", answer="4"))
        (seen,) = gym.endpoint.requests
    assert verdict.usage is not None
    assert verdict.usage.input == count_tokens(seen.body["messages"]) > 0
    assert (verdict.usage.output, verdict.usage.calls, verdict.usage.uncounted_calls) == (len(VERDICT) + 1, 1, 0)
