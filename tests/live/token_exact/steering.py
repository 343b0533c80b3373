"""A shim before vLLM: it tells the engine with each call what the policy is to say, for `SteeredSampling` to allow.

A grammar would not do: vLLM applies one before it takes the log-probabilities, "raw" or not, and a trainer knows of no
grammar.
"""

from gym_core.types.wire import JsonObject
from tests.live.token_exact.policy import speak

SAY = "say"
"""Among a request's `vllm_xargs`, which a render hands on in its sampling parameters."""


def steer(body: JsonObject) -> JsonObject:
    """A chat request, or a render of one. Unchanged where the model is to speak for itself, and where it is not asked
    to speak."""
    if body.get("add_generation_prompt") is False:
        return body
    said = speak(body["messages"], None)
    return body if said is None else body | {"vllm_xargs": {SAY: said}}
