"""Prompt token ids out of an endpoint's JSON: a hundred thousand come back with every call of a long session."""

import numpy as np

from gym_core.capture.recorder import Ids

_MAX_ID = 2**31 - 1


class PromptMemory:
    """Prompt ids of a session's last answer: the next prompt begins with them, and only what is new is parsed.

    Remembers the text by length and hash(), SipHash under a secret of this process, and not itself.
    """

    def __init__(self) -> None:
        self._n_text = 1
        self._text_hash = hash(b"[")
        self._ids: Ids = np.empty(0, np.int32)

    def read(self, text: bytes) -> Ids | None:
        """Ids of a JSON list of integers; None when it is empty or anything else."""
        seen, n_text = self._ids, self._n_text
        is_longer = text[n_text : n_text + 1] in (b",", b"]") and hash(text[:n_text]) == self._text_hash
        new = _parse_ids(text[n_text + 1 : -1] if is_longer else text[1:-1]) if text.startswith(b"[") else None
        if new is None:
            return None
        ids = np.concatenate([seen, new]) if is_longer else new
        if not len(ids):
            return None
        self._n_text, self._text_hash, self._ids = len(text) - 1, hash(text[:-1]), ids
        return ids


def _parse_ids(text: bytes) -> Ids | None:
    """Of integers between commas; np.fromstring takes half the time of JSON lists."""
    if not text:
        return np.empty(0, np.int32)
    if text.translate(None, b"0123456789, "):
        return None
    ids = np.fromstring(text, np.int64, sep=",")
    fits = len(ids) == text.count(b",") + 1 and ids.max() <= _MAX_ID
    return ids.astype(np.int32) if fits else None
