"""What NeMo RL makes of a result, rewritten from its published code: `gym_core.export.formats.nemo_rl` names it."""

import math

from gym_core.types.wire import JsonObject


def nemo_rl_reads(result: JsonObject) -> tuple[list[int], list[int], list[float], list[list[str]]]:
    """Ids, mask, log-probabilities, and the URLs of the pictures that each trained turn gets. Raises AssertionError
    where NeMo RL would raise."""
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    bins: list[list[str]] = []
    pending = [url for item in result["response"]["agent_input"] for url in nemo_rl_pictures(item)]
    for item in result["response"]["output"]:
        if not item.get("generation_token_ids"):
            if item.get("role") != "assistant":
                pending += nemo_rl_pictures(item)
            continue
        assert ids == item["prompt_token_ids"][: len(ids)], "Non-contiguous messages found!"
        new = len(item["prompt_token_ids"]) - len(ids)
        ids = item["prompt_token_ids"] + item["generation_token_ids"]
        mask += [0] * new + [1] * len(item["generation_token_ids"])
        logprobs += [0.0] * new + item["generation_log_probs"]
        bins.append(pending)
        pending = []
    assert ids, "NeMo Gym returned a result with no generation data."
    assert not any(math.isnan(logprob) for logprob in logprobs)
    if components := result.get("reward_components"):
        assert math.isclose(float(result["reward"]), sum(components.values()), rel_tol=1e-5, abs_tol=1e-6)
    assert isinstance(result["reward"], float)
    return ids, mask, logprobs, bins


def nemo_rl_pictures(item: JsonObject) -> list[str]:
    if item.get("type") == "function_call_output":
        output = item.get("output")
        is_picture = isinstance(output, str) and output.startswith(("data:image/", "http://", "https://", "file://"))
        return [output] if is_picture and isinstance(output, str) else []
    content = item.get("content") or []
    if not isinstance(content, list):
        return []
    return [part["image_url"] for part in content if part.get("type") in ("input_image", "image", "image_url")]
