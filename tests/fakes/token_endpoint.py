"""An engine with vLLM's token routes, small enough to think through, whose chat template drifts from what was sampled.

Its tokens are letters and pairs of small letters. The template's print is tokenized in pairs, the scripted answers are
sampled letter by letter: the same text, other tokens. Tool calls are printed with other white space than they were
written with. A picture takes as many placeholders as its URL is long, modulo 5, plus 1.
"""

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from gym_core.types.wire import JsonObject

END, START, PAD, OTHER_END = 1, 2, 3, 4
LETTER, PAIR = 1000, 2_000_000
MARKUP = {"<|end|>": END, "<|start|>": START, "<|pad|>": PAD, "<|other|>": OTHER_END}
WORDS = re.compile("|".join(map(re.escape, MARKUP)) + "|[a-z]{2}|.", re.DOTALL)
CALL = re.compile(r"<call>(.*?)</call>", re.DOTALL)
THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)


def letters(text: str) -> list[int]:
    """As the model samples it: markup counts as letters, too."""
    return [LETTER + ord(letter) for letter in text]


def encode(text: str) -> list[int]:
    """As the tokenizer cuts it."""
    return [_token(word) for word in WORDS.findall(text)]


def _token(word: str) -> int:
    if word in MARKUP:
        return MARKUP[word]
    return LETTER + ord(word) if len(word) == 1 else PAIR + ord(word[0]) * 256 + ord(word[1])


def decode(ids: Sequence[int]) -> str:
    names = {token: word for word, token in MARKUP.items()}
    return "".join(
        names[token]
        if token in names
        else chr(token - LETTER)
        if token < PAIR
        else chr((token - PAIR) // 256) + chr((token - PAIR) % 256)
        for token in ids
    )


@dataclass
class Asked:
    path: str
    body: JsonObject


@dataclass
class TokenEngine:
    """`async with TokenEngine(answers) as engine:`; answers are sampled ids, one a completion, in order."""

    answers: deque[list[int]] = field(default_factory=deque)
    has_routes: bool = True
    honours_prefix: bool = False
    """`required_prefix_token_ids`, cut in at the end of the last turn they hold."""
    closes_turns: bool = True
    """Whether an answer ends in a token of its own, or only where the next turn begins."""
    prints_answers_last: bool = True
    """Whether a conversation may end with an answer."""
    misreads: bool = False
    """Puts one token more into a prompt of ids than it was given."""
    parses: bool = True
    """Whether ids can be read back."""
    url: str = ""
    model: str = "tiny"
    asked: list[Asked] = field(default_factory=list)
    _runner: web.AppRunner | None = None

    def says(self, text: str, *, end: int | None = END) -> None:
        self.answers.append(letters(text) + ([] if end is None else [end]))

    @property
    def paths(self) -> list[str]:
        """Of all requests but those that look at the template."""
        return [asked.path for asked in self.asked if not _is_look(asked.body)]

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/chat/completions/render", self._render)
        app.router.add_post("/v1/chat/completions/derender", self._derender)
        app.router.add_post("/inference/v1/generate", self._generate)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner:
            await self._runner.cleanup()

    async def _read(self, request: web.Request) -> JsonObject:
        body: JsonObject = json.loads(await request.read())
        self.asked.append(Asked(request.path, body))
        if request.path != "/v1/chat/completions" and not self.has_routes:
            raise web.HTTPForbidden(text=json.dumps({"error": {"message": "Restart with --enable-scale-out"}}))
        return body

    def template(self, body: JsonObject) -> tuple[list[int], list[tuple[int, int]]]:
        """The prompt, and where its pictures are."""
        ids, spans = [], []
        if body.get("tools"):
            ids += [START, *encode("system\n" + json.dumps(body["tools"])), END, *encode("\n")]
        for message in body["messages"]:
            ids += [START, *encode(message["role"] + "\n")]
            content = message.get("content") or ""
            parts: list[JsonObject] = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for part in parts:
                if part["type"] == "image_url":
                    length = picture_tokens(part["image_url"]["url"])
                    spans.append((len(ids), length))
                    ids += [PAD] * length
                else:
                    ids += encode(part["text"])
            for call in message.get("tool_calls") or ():
                function = call["function"]
                said = {"name": function["name"], "arguments": json.loads(function["arguments"])}
                ids += encode(f"<call>{json.dumps(said)}</call>")
            if message["role"] != "assistant" or self.closes_turns:
                ids += [END, *encode("\n")]
        if body.get("add_generation_prompt", True):
            ids += [START, *encode("assistant\n")]
        return ids, spans

    async def _render(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        assert body["mm_payload"] == "none"
        if body["messages"][-1]["role"] == "assistant" and not self.prints_answers_last:
            return web.json_response({"error": {"message": "the last role is to be user or tool"}}, status=400)
        ids, spans = self.template(body)
        sampling: JsonObject = {"temperature": body.get("temperature", 1.0), "logprobs": 0, "skip_clone": True}
        if body.get("max_tokens", 4096) != 16:
            sampling["max_tokens"] = body.get("max_tokens", 4096)
        places = {"image": [{"offset": offset, "length": length} for offset, length in spans]}
        features = {"mm_hashes": {}, "mm_placeholders": places, "kwargs_data": None} if spans else None
        return web.json_response(
            {"request_id": "r", "token_ids": ids, "features": features, "sampling_params": sampling, "priority": 0}
        )

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await self._read(request)
        pictures = deque(part["url"] for part in body.get("content_parts", ()))
        ids: list[int] = []
        for token in body["token_ids"]:
            ids += [PAD] * picture_tokens(pictures.popleft()) if token == PAD and pictures else [token]
        if pictures:
            return web.json_response({"error": {"message": "more pictures than placeholders"}}, status=400)
        if self.misreads:
            ids.append(LETTER)
        sampled, finish = self._sample(body["sampling_params"].get("max_tokens"))
        entries = [{"token_id": token, "logprob": -0.5, "rank": 1} for token in sampled]
        choice = {"index": 0, "token_ids": sampled, "logprobs": {"content": entries}, "finish_reason": finish}
        return await self._send(request, body, {"request_id": "g"}, choice, ids)

    async def _derender(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        if not self.parses:
            return web.json_response({"error": {"message": "chat_request is required"}}, status=400)
        choice = body["generate_response"]["choices"][0]
        assert choice["token_ids"], "empty or null token_ids"
        # The real one keeps markup, the end of the turn included, once it has a parser.
        message = read_answer(decode(choice["token_ids"]))
        choice = {"index": 0, "message": message, "finish_reason": choice["finish_reason"]}
        return web.json_response({"id": "d", "choices": [choice], "usage": {}})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await self._read(request)
        ids, _ = self.template(body)
        prefix = body.get("required_prefix_token_ids")
        if prefix and self.honours_prefix:
            n = len([END for token in prefix if token == END])
            at = [place for place, token in enumerate(ids) if token == END][n - 1]
            ids = prefix + ids[at + 1 :]
        if _is_look(body):
            sampled, finish = [LETTER + 1], "length"
        else:
            sampled, finish = self._sample(body.get("max_tokens"))
        text = decode(sampled[:-1] if finish == "stop" else sampled)
        message = read_answer(text)
        finish = "tool_calls" if message.get("tool_calls") else finish
        entries = [{"token": "", "logprob": -0.5} for _ in sampled]
        choice = {"index": 0, "token_ids": sampled, "logprobs": {"content": entries}, "finish_reason": finish}
        choice["delta" if body.get("stream") else "message"] = message
        return await self._send(request, body, {"id": "c"}, choice, ids)

    def _sample(self, max_tokens: int | None) -> tuple[list[int], str]:
        sampled = self.answers.popleft() if self.answers else [*letters("ok"), END]
        cut = sampled[:max_tokens]
        return cut, "stop" if cut == sampled and cut[-1] in (END, OTHER_END) else "length"

    async def _send(
        self, request: web.Request, body: JsonObject, head: JsonObject, choice: JsonObject, prompt: list[int]
    ) -> web.StreamResponse:
        made = len(choice["token_ids"])
        usage = {"prompt_tokens": len(prompt), "completion_tokens": made, "total_tokens": len(prompt) + made}
        whole = {**head, "choices": [choice], "prompt_token_ids": prompt}
        if not body.get("stream"):
            return web.json_response({**whole, "usage": usage})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError, asyncio.CancelledError):
            for event in (whole, {**head, "choices": [], "usage": usage}):
                await response.write(f"data: {json.dumps(event)}\n\n".encode())
            await response.write(b"data: [DONE]\n\n")
        return response


def picture_tokens(url: str) -> int:
    return len(url) % 5 + 1


def read_answer(text: str) -> JsonObject:
    thought = THOUGHT.search(text)
    text = THOUGHT.sub("", text)
    calls = []
    for position, found in enumerate(CALL.findall(text)):
        said = json.loads(found)
        function = {"name": said["name"], "arguments": json.dumps(said["arguments"])}
        calls.append({"index": position, "id": f"call_{position}", "type": "function", "function": function})
    message: JsonObject = {"role": "assistant", "content": CALL.sub("", text) or None, "tool_calls": calls}
    return message | ({"reasoning": thought[1]} if thought else {})


def _is_look(body: JsonObject) -> bool:
    messages: list[JsonObject] = body.get("messages", [])
    return messages[:1] == [{"role": "user", "content": "a"}]
