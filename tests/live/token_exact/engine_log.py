"""What an engine was sent and what it answered, read from the bytes on its wire by code that the gym does not share."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from gym_core.types.wire import JsonObject


class Fault(StrEnum):
    """What a relay does to one answer."""

    NONE = "none"
    SERVER_ERROR = "server_error"
    """500, without asking the engine."""
    BROKEN_STREAM = "broken_stream"
    """A few events, then the connection is gone."""
    CLEAN_HALF = "clean_half"
    """A few events and a well-formed end."""
    LOST_IDS = "lost_ids"
    """All of it, but for the token ids of one event: a whole answer that cannot be trained."""
    STALL = "stall"
    """A few events, then silence until the client leaves."""


IS_ASKED_AGAIN = frozenset({Fault.SERVER_ERROR, Fault.BROKEN_STREAM, Fault.CLEAN_HALF})


@dataclass
class Seen:
    """One request to the engine, as the engine itself spoke of it."""

    route: str
    request_hash: str
    pictures: list[str]
    """SHA-256 of each picture's bytes, in the order of the request."""
    fault: Fault
    prompt_ids: list[int] = field(default_factory=list)
    sampled_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    is_whole: bool = False
    """Its answer came to the end and was passed on."""

    @property
    def full(self) -> list[int]:
        return self.prompt_ids + self.sampled_ids

    def hear(self, said: JsonObject) -> None:
        """An event of its answer, or the answer as one object."""
        if said.get("prompt_token_ids") is not None:
            self.prompt_ids = list(said["prompt_token_ids"])
        for choice in said.get("choices") or []:
            self.sampled_ids += choice.get("token_ids") or []
            self.logprobs += [entry["logprob"] for entry in (choice.get("logprobs") or {}).get("content") or []]

    @classmethod
    def of_request(cls, route: str, raw: bytes, fault: Fault) -> "Seen":
        return cls(route, hashlib.sha256(raw).hexdigest(), pictures_of(json.loads(raw)), fault)


def pictures_of(body: JsonObject) -> list[str]:
    """Of a chat request in the order of its messages, or of a token request in the order of its parts."""
    parts = list(body.get("content_parts") or [])
    for message in body.get("messages") or []:
        if isinstance(message.get("content"), list):
            parts += message["content"]
    urls = [part.get("url") or part.get("image_url") for part in parts if part.get("type") == "image_url"]
    return [_hash_of(url["url"] if isinstance(url, dict) else str(url)) for url in urls]


def _hash_of(data_url: str) -> str:
    return hashlib.sha256(base64.b64decode(data_url.partition(",")[2])).hexdigest()


def write_log(path: Path, log: Sequence[Seen]) -> None:
    path.write_text("".join(json.dumps(asdict(seen)) + "\n" for seen in log))


def read_log(path: Path) -> list[Seen]:
    entries = map(json.loads, path.read_text().splitlines())
    return [Seen(**entry | {"fault": Fault(entry["fault"])}) for entry in entries]
