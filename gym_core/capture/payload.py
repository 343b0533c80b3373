"""A record's bytes within its frame: a JSON head and token arrays, compressed with the help of the records before it.

Payload: one byte that says whether the record is its writer's first, then one zstd frame of
    uint32 length of the head, head as JSON,
    symbols of the ids (one byte each, prompt ids first), then their literals (int32) and rests (`CodedIds`),
    log-probabilities (float32).
Numbers of several bytes lie apart by byte (all highest bytes first), each kind of byte in a block of its own, because
they compress in ways of their own. The dictionary of a zstd frame is its writer's first heads: facts are much alike.

Payloads of earlier versions begin with zstd's own magic: a head, and arrays of plain int32 and float32.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from gym_core.capture.token_table import CodedIds, Ids, TokenTable

Logprobs = npt.NDArray[np.float32]

_LEVEL = 3
_MAX_PAYLOAD_BYTES = 1 << 30
_LENGTH = struct.Struct("<I")
_FIRST, _LATER = b"\x01", b"\x02"
_OLD = zstandard.FRAME_HEADER[:1]
_MAX_PAST_BYTES = 4096
"""Of a head that later ones are compressed with: its facts come first."""


class Added(msgspec.Struct):
    """What a record adds to the messages of its base."""

    keep: int
    add: list[msgspec.Raw]


class Head(msgspec.Struct, omit_defaults=True):
    kind: str
    """"intent" or "call"."""
    facts: msgspec.Raw
    messages: Added | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")
    """null means as in the base."""
    n_back: int = 0
    """Which record this one builds on, counted back; 0 is the one before it."""
    n_prompt_kept: int = 0
    n_prompt_added: int = -1
    """-1 means no token ids."""
    n_sampled: int = 0
    n_literals: int = 0
    n_logprobs: int = 0


@dataclass(frozen=True)
class Arrays:
    """New token ids of a record, those of the prompt first, and its log-probabilities."""

    ids: Ids
    logprobs: Logprobs


NO_IDS = CodedIds(np.empty(0, np.uint8), np.empty(0, np.int32), np.empty(0, np.uint8))
NO_ARRAYS = Arrays(np.empty(0, np.int32), np.empty(0, np.float32))


class _Past:
    """A writer's first heads, up to that of a call, as a dictionary. It stays: making one costs more than using it."""

    def __init__(self) -> None:
        self._text = b""
        self._is_settled = False

    @property
    def dictionary(self) -> zstandard.ZstdCompressionDict | None:
        text = self._text
        return zstandard.ZstdCompressionDict(text, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if text else None

    def add(self, kind: str, head: bytes) -> bool:
        """Whether the dictionary is another one now."""
        if self._is_settled:
            return False
        self._text = head[:_MAX_PAST_BYTES] + self._text[:_MAX_PAST_BYTES]
        self._is_settled = kind != "intent"
        return True


class PayloadWriter:
    """Of one writer of one file, in order. What was not written must be taken back before the next."""

    def __init__(self) -> None:
        self._table = TokenTable()
        self._past = _Past()
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._mark = _FIRST
        self._n_places_before = 0
        self._encoded = "", b""

    def encode(self, head: Head, arrays: Arrays) -> bytes:
        """Sets `head.n_literals`."""
        self._n_places_before = len(self._table)
        coded = self._table.encode(arrays.ids) if len(arrays.ids) else NO_IDS
        head.n_literals = len(coded.literals)
        text = msgspec.json.encode(head)
        blocks = [_LENGTH.pack(len(text)) + text, *_blocks(coded, arrays.logprobs)]
        stream = self._compressor.compressobj(size=sum(map(len, blocks)))
        pieces = [self._mark, stream.compress(blocks[0])]
        for block in blocks[1:]:
            pieces += [stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), stream.compress(block)]
        pieces.append(stream.flush())
        self._encoded = head.kind, text
        return b"".join(pieces)

    def written(self) -> None:
        """The last payload is on disk: later ones build on it."""
        if self._past.add(*self._encoded):
            self._compressor = zstandard.ZstdCompressor(level=_LEVEL, dict_data=self._past.dictionary)
        self._mark = _LATER

    def take_back(self) -> None:
        """The last payload is not."""
        self._table.cut_back(self._n_places_before)


def _blocks(coded: CodedIds, logprobs: Logprobs) -> Iterator[bytes]:
    if len(coded.symbols_T):
        yield coded.symbols_T.tobytes()
        if len(coded.literals):
            highest, high, low, lowest = _planes(coded.literals)
            yield highest + high
            yield low
            yield lowest
        yield coded.rests.tobytes()
    if len(logprobs):
        exponents, *rest = _planes(logprobs)
        yield exponents
        yield b"".join(rest)


def _planes(numbers: Ids | Logprobs) -> list[bytes]:
    """Four byte strings: the highest byte of each number, and so on down."""
    by_byte = np.frombuffer(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False).tobytes(), np.uint8)
    return [plane.tobytes() for plane in by_byte.reshape(-1, 4).T[::-1]]


def _joined(planes: bytes, n: int) -> bytes:
    """Inverse of `_planes`, for `n` numbers."""
    return np.frombuffer(planes, np.uint8, 4 * n).reshape(4, n)[::-1].T.tobytes()


class PayloadReader:
    """Of one file, in order."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._table = TokenTable()
        self._past = _Past()
        self._decompressor = zstandard.ZstdDecompressor()

    def decode(self, payload: bytes) -> tuple[Head, Arrays, bool]:
        """The record, and whether its writer began with it. Raises ValueError."""
        try:
            return self._decode_old(payload) if payload.startswith(_OLD) else self._decode(payload)
        except (zstandard.ZstdError, struct.error, msgspec.MsgspecError) as error:
            raise ValueError(f"not a record: {error}") from error

    def _decode(self, payload: bytes) -> tuple[Head, Arrays, bool]:
        is_first = payload.startswith(_FIRST)
        if is_first:
            self._begin()
        text, rest = _split(_inflated(payload[1:], self._decompressor))
        head = msgspec.json.decode(text, type=Head)
        if self._past.add(head.kind, text):
            self._decompressor = zstandard.ZstdDecompressor(dict_data=self._past.dictionary)
        return head, self._arrays(head, rest), is_first

    def _arrays(self, head: Head, content: bytes) -> Arrays:
        n_ids = max(head.n_prompt_added, 0) + head.n_sampled
        symbols_T = np.frombuffer(content, np.uint8, n_ids)
        at = n_ids
        literals = np.frombuffer(_joined(content[at:], head.n_literals), "<i4")
        at += 4 * head.n_literals
        n_rests = len(content) - at - 4 * head.n_logprobs
        rests = np.frombuffer(content, np.uint8, n_rests, at) if n_rests else symbols_T[:0]
        logprobs = np.frombuffer(_joined(content[at + n_rests :], head.n_logprobs), "<f4")
        return Arrays(self._table.decode(CodedIds(symbols_T, literals, rests)), logprobs)

    def _decode_old(self, payload: bytes) -> tuple[Head, Arrays, bool]:
        text, rest = _split(_inflated(payload, zstandard.ZstdDecompressor()))
        head = msgspec.json.decode(text, type=Head)
        n_ids = max(head.n_prompt_added, 0) + head.n_sampled
        ids = np.frombuffer(rest, "<i4", n_ids) if n_ids else NO_ARRAYS.ids
        logprobs = np.frombuffer(rest, "<f4", head.n_logprobs, 4 * n_ids) if head.n_logprobs else NO_ARRAYS.logprobs
        return head, Arrays(ids, logprobs), False


def _inflated(frame: bytes, decompressor: zstandard.ZstdDecompressor) -> bytes:
    if zstandard.frame_content_size(frame) > _MAX_PAYLOAD_BYTES:
        raise ValueError("a record of more than a gigabyte")
    return decompressor.decompress(frame)


def _split(content: bytes) -> tuple[bytes, bytes]:
    (n_head,) = _LENGTH.unpack_from(content)
    return content[_LENGTH.size : _LENGTH.size + n_head], content[_LENGTH.size + n_head :]
