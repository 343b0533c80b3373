"""A call that goes on from known ids, with a server that takes them beside the messages, as NeMo RL's vLLM does.

Such servers read `required_prefix_token_ids` of the request, or `prompt_token_ids` and `generation_token_ids` of the
last assistant message that has them, and cut the known ids into their own render. Stock vLLM ignores both in silence,
so what the answer says of its prompt decides.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
from msgspec import Raw

from gym_core.servers.model.answer import Answer
from gym_core.servers.model.call import Call
from gym_core.servers.model.endpoint import EndpointPool
from gym_core.servers.model.request import ShapedBody
from gym_core.servers.model.tips import Tip
from gym_core.types.wire import JsonObject

_NOT_PROBED = ("messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "stop")
_USER, _ASSISTANT = "user", "assistant"


class RequiredPrefix:
    def __init__(self, pool: EndpointPool) -> None:
        self._pool = pool

    async def complete(self, call: Call, body: ShapedBody, tip: Tip) -> Answer:
        """Kept also when the server ignored the ids, with a note. Raises Refusal, EndpointFault."""
        answer = await self._ask(call, with_prefix(body, call.sending, tip))
        progress = call.progress
        progress.sent = body.with_max_tokens(progress.sent.max_tokens if progress.sent else body.max_tokens)
        call.notes.append("exact_prefix" if _begins_with(answer, tip) else "exact_prefix_ignored")
        return answer

    async def is_honoured(self, call: Call, body: ShapedBody) -> bool:
        """Whether a prompt begins with ids that its messages would never give. Raises Refusal, EndpointFault."""
        fields = {name: said for name, said in body.fields.items() if name not in _NOT_PROBED}
        said = [_message(_USER, "a"), _message(_ASSISTANT, "b"), _message(_USER, "c")]
        probe = replace(body, fields={**fields, "messages": said[:1]}, max_tokens=1)
        tokens = (await self._ask(call, probe)).tokens
        if tokens is None or not len(tokens.ids_S) or not len(tokens.prompt_ids):
            return False
        tip = Tip(replace(tokens, ids_S=np.repeat(tokens.ids_S[:1], 2)), n_messages=2)
        return _begins_with(await self._ask(call, with_prefix(probe, said, tip)), tip)

    async def _ask(self, call: Call, body: ShapedBody) -> Answer:
        session = call.session
        return await self._pool.complete(
            body, affinity=session.affinity, progress=call.progress, memory=session.prompts
        )


def with_prefix(body: ShapedBody, sending: Sequence[Raw], tip: Tip) -> ShapedBody:
    """With the known ids in both forms that servers read."""
    answered = msgspec.json.decode(sending[tip.n_messages - 1], type=dict[str, Raw])
    ids: JsonObject = {
        "prompt_token_ids": tip.tokens.prompt_ids.tolist(),
        "generation_token_ids": tip.tokens.ids_S.tolist(),
    }
    messages: list[object] = list(sending)
    messages[tip.n_messages - 1] = answered | ids
    return replace(body, fields={**body.fields, "messages": messages, "required_prefix_token_ids": tip.seen.tolist()})


def _begins_with(answer: Answer, tip: Tip) -> bool:
    seen = tip.seen
    return answer.tokens is not None and np.array_equal(answer.tokens.prompt_ids[: len(seen)], seen)


def _message(role: str, text: str) -> Raw:
    return Raw(msgspec.json.encode({"role": role, "content": text}))
