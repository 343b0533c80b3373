"""A session's next prompt begins with the very ids that were seen and sampled before.

A chat route prints the whole conversation anew with every call. What it prints of an answer is often not what was
sampled, and from there on a trainer has a prompt that the policy never saw. There are two ways around that, told in
`token_in` and `required_prefix`; this module chooses.

What became of it is in each call's notes: `exact_prefix` (the engine says that its prompt was just that),
`exact_prefix_fallback:<why>` (asked the plain way), `exact_prefix_ignored` (the server took no notice of the ids). A
call that begins a conversation is asked the plain way and has no note.
"""

import logging

from gym_core.servers.model.answer import Answer
from gym_core.servers.model.call import Call
from gym_core.servers.model.config import ExactPrefixMode
from gym_core.servers.model.endpoint import EndpointFault, EndpointPool
from gym_core.servers.model.refusal import model_unavailable
from gym_core.servers.model.request import ShapedBody
from gym_core.servers.model.required_prefix import RequiredPrefix
from gym_core.servers.model.splice import CannotSplice
from gym_core.servers.model.token_in import TokenIn
from gym_core.types.model_call import CaptureGap

log = logging.getLogger(__name__)

NO_ROUTES_ADVICE = (
    "exact_prefix needs an endpoint that takes tokens: start vLLM with --enable-scale-out, or use a server that "
    "honours required_prefix_token_ids, as NeMo RL's does, with exact_prefix_mode: required_prefix"
)
_NO_ROUTE = frozenset({403, 404, 405})
_WITH_IDS = frozenset({CaptureGap.IDS_NOT_LOGPROBS, CaptureGap.BAD_LOGPROB})
"""What may be missing of an answer that can be gone on from."""


class ExactPrefix:
    """Asks the calls of all sessions of one model server."""

    def __init__(self, pool: EndpointPool, mode: ExactPrefixMode) -> None:
        self._pool = pool
        self._mode = mode
        self._token_in = TokenIn(pool)
        self._required_prefix = RequiredPrefix(pool)
        self._way: TokenIn | RequiredPrefix | None = None

    async def complete(self, call: Call, body: ShapedBody) -> Answer:
        """A whole answer. Raises Refusal, EndpointFault once it is final."""
        way = await self._chosen(call, body)
        try:
            tip = call.session.tips.find([message.kept for message in call.messages], _tools(call))
            if tip is not None:
                return await way.complete(call, body, tip)
        except CannotSplice as failure:
            call.notes.append(f"exact_prefix_fallback:{failure.why}")
        # The record's attempts are those of the request that samples, not of the looks before it.
        call.progress.attempts = 0
        session = call.session
        return await self._pool.complete(
            body, affinity=session.affinity, progress=call.progress, memory=session.prompts
        )

    def remember(self, call: Call, answer: Answer) -> None:
        """An answer as the harness gets it: later calls may go on from it."""
        tokens = answer.tokens if _WITH_IDS.issuperset(answer.gaps) else None
        messages = [message.kept for message in call.messages]
        call.session.tips.add(call.id, messages, _tools(call), answer.for_record(), tokens)

    async def _chosen(self, call: Call, body: ShapedBody) -> TokenIn | RequiredPrefix:
        """Learned with the first call that is answered; several first ones each look for themselves. Raises Refusal
        when the endpoint can nothing of it, EndpointFault."""
        if self._way is None:
            self._way = await self._look(call, body)
            log.info("exact prefix", extra={"way": type(self._way).__name__})
        return self._way

    async def _look(self, call: Call, body: ShapedBody) -> TokenIn | RequiredPrefix:
        if self._mode is ExactPrefixMode.REQUIRED_PREFIX:
            return self._required_prefix
        try:
            await self._token_in.look(call, body)
        except EndpointFault as fault:
            if fault.status not in _NO_ROUTE:
                raise
            if self._mode is ExactPrefixMode.AUTO and await self._required_prefix.is_honoured(call, body):
                return self._required_prefix
            raise model_unavailable(f"{NO_ROUTES_ADVICE} ({str(fault)[:300]})") from fault
        return self._token_in


def _tools(call: Call) -> bytes:
    return bytes(call.envelope.tools) if call.envelope.has_tools else b""
