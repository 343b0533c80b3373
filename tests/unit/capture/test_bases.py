"""Which earlier record a new one builds on, and that few of them are remembered."""

import numpy as np

from gym_core.capture.bases import MAX_BASE_IDS, MAX_BASES, Base, Bases
from gym_core.capture.token_table import Ids

NO_IDS = np.empty(0, np.int32)


def put(bases: Bases, messages: list[bytes], ids: Ids = NO_IDS) -> tuple[int, int, int]:
    """(records back, shared messages, shared ids)."""
    shared = bases.best(messages, ids if len(ids) else None)
    bases.add(Base(messages, b"[]", ids), shared)
    return shared.n_back, shared.n_messages, shared.n_ids


def test_a_call_builds_on_its_own_conversation_and_not_on_the_last_call() -> None:
    rng = np.random.default_rng(0)
    main, other = rng.integers(0, 1000, (2, 5000), dtype=np.int32)
    bases = Bases()
    assert put(bases, [b"m"], main[:2000]) == (0, 0, 0)
    assert put(bases, [b"o"], other[:2000]) == (0, 0, 0)
    assert put(bases, [b"m", b"m2"], main[:3000]) == (1, 1, 2000)
    assert put(bases, [b"o", b"o2"], other[:3000]) == (1, 1, 2000)
    assert put(bases, [b"m", b"m2", b"m3"], main[:4000]) == (1, 2, 3000)


def test_without_token_ids_the_messages_tell() -> None:
    bases = Bases()
    main, other = [[b"%s%d" % (name, n) for n in range(40)] for name in (b"m", b"o")]
    put(bases, main[:20])
    put(bases, other[:20])
    assert put(bases, main[:30]) == (1, 20, 0)
    assert put(bases, other[:30]) == (1, 20, 0)


def test_a_branch_off_an_earlier_call_finds_it_as_long_as_it_is_remembered() -> None:
    rng = np.random.default_rng(0)
    trunk = rng.integers(0, 1000, 40_000, dtype=np.int32)
    bases = Bases()
    for n in range(10):  # each sampled something that the next one does not hold
        put(bases, [], np.concatenate([trunk[: 2000 + 2000 * n], rng.integers(0, 1000, 10, dtype=np.int32)]))
    n_back, _, n_ids = put(bases, [], np.concatenate([trunk[:9000], rng.integers(0, 1000, 900, dtype=np.int32)]))
    assert n_ids >= 9000
    assert n_back <= 5


def test_what_is_remembered_is_bounded_by_number_and_by_size() -> None:
    bases, few = Bases(), Bases()
    for n in range(3 * MAX_BASES):
        put(bases, [b"%d" % n])
    for n in range(6):
        put(few, [], np.full(MAX_BASE_IDS // 3, n, np.int32))
    assert [sum(_is_there(each, n) for n in range(200)) for each in (bases, few)] == [MAX_BASES, 3]


def _is_there(bases: Bases, n_back: int) -> bool:
    try:
        bases.find(n_back)
    except ValueError:
        return False
    return True
