"""Host user ids: one sandbox each, whoever asks."""

from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.providers.local.uids import UidPool, free_range


def test_two_pools_on_one_file_never_give_the_same_id(tmp_path: Path) -> None:
    pools = [UidPool(tmp_path / "lock"), UidPool(tmp_path / "lock")]
    start = pools[0].take()
    # The second begins just before an id that the first holds, and must step over it.
    taken = [start] + [pools[n % 2].take() for n in range(200)]
    assert len(set(taken)) == len(taken)
    for pool in pools:
        pool.close()


def test_an_id_given_back_can_be_had_again(tmp_path: Path) -> None:
    pool = UidPool(tmp_path / "lock")
    other = UidPool(tmp_path / "lock")
    uid = pool.take()
    assert not other.try_take(uid)
    pool.give_back(uid)
    assert other.try_take(uid)
    pool.close()
    other.close()


def test_a_pool_that_goes_away_gives_back_its_ids(tmp_path: Path) -> None:
    pool, other = UidPool(tmp_path / "lock"), UidPool(tmp_path / "lock")
    uid = pool.take()
    pool.close()
    assert other.try_take(uid)
    other.close()


@pytest.mark.parametrize(
    ("uid_map", "first"),
    [
        ("         0          0 4294967295\n", 1_900_000_000),
        ("         0     100000      65536\n", 60_706),
        ("         0       1000          1\n         1     100000      65536\n", 60_706),
    ],
)
def test_the_range_is_one_that_this_user_namespace_has(uid_map: str, first: int) -> None:
    assert free_range(uid_map)[0] == first


def test_a_namespace_without_ids_to_spare_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="user ids"):
        free_range("         0       1000          1\n")
