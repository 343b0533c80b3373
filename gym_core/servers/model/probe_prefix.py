"""Whether an endpoint can go on from known tokens, seen before a run needs it."""

from gym_core.servers.model.config import ExactPrefixMode
from gym_core.servers.model.exact_prefix import NO_ROUTES_ADVICE
from gym_core.servers.model.probe_wire import ProbeClient
from gym_core.types.wire import JsonObject


async def exact_prefix_trouble(
    client: ProbeClient, mode: ExactPrefixMode | None, extras: JsonObject, *, takes_tokens: bool
) -> str | None:
    """What to do about an endpoint that cannot do what `mode` asks; None when it can, or nothing is asked.

    `extras` are the fields that ask for ids; `takes_tokens`: it has the token routes.
    """
    if mode is None or (takes_tokens and mode is not ExactPrefixMode.REQUIRED_PREFIX):
        return None
    if mode is not ExactPrefixMode.TOKEN_IN and await _honours_prefix(client, extras):
        return None
    return NO_ROUTES_ADVICE


async def _honours_prefix(client: ProbeClient, extras: JsonObject) -> bool:
    """Whether a prompt begins with ids that its messages would never give."""
    fields = {**extras, "max_tokens": 1}
    asked: list[JsonObject] = [{"role": "user", "content": "a"}]
    first = (await client.complete(asked, **fields)).completion
    if first is None or not first.prompt_ids:
        return False
    prefix = first.prompt_ids + 2 * first.prompt_ids[-1:]
    more: list[JsonObject] = [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    reply = await client.complete([*asked, *more], **fields, required_prefix_token_ids=prefix)
    return reply.completion is not None and reply.completion.prompt_ids[: len(prefix)] == prefix
