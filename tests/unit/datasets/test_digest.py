import os
from pathlib import Path

from gym_core.datasets.digest import sha256_of_states


def test_a_file_that_is_replaced_goes_or_is_named_otherwise_changes_the_digest(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    seen = [sha256_of_states([first, second]), sha256_of_states([second, first]), sha256_of_states([first])]
    os.utime(first, ns=(0, 1))
    seen.append(sha256_of_states([first, second]))
    first.write_bytes(b"11")
    os.utime(first, ns=(0, 1))
    seen.append(sha256_of_states([first, second]))
    assert sha256_of_states([first, second]) == seen[-1]
    first.unlink()
    seen.append(sha256_of_states([first, second]))
    assert len(set(seen)) == len(seen)
