"""Owners of sandboxes: told living from dead by words that were written down."""

import os
import re
import socket
import subprocess
import sys

import pytest

from gym_core.sandbox.owner import Owner


def test_an_owner_is_read_back_as_it_was_written() -> None:
    here = Owner.here()
    assert Owner.parse(str(here)) == here
    assert (here.pid, here.is_known_dead) == (os.getpid(), False)


@pytest.mark.parametrize("host", ["box", "a" * 63, "-odd name.example.org", "", "ä"])
def test_it_fits_a_kubernetes_label(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,61}[A-Za-z0-9]", str(Owner.here()))
    assert Owner.parse(str(Owner.here())) == Owner.here()


@pytest.mark.parametrize("text", ["", "me", "a_b_1_2", "box_12345678_1_2_3\n", "box_12345678_1_2_x"])
def test_what_we_did_not_write_is_nobody(text: str) -> None:
    assert Owner.parse(text) is None


def test_a_process_that_ended_is_dead() -> None:
    program = "from gym_core.sandbox.owner import Owner; print(Owner.here(), end='')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    owner = Owner.parse(done.stdout)
    assert owner
    assert owner.is_known_dead


def test_another_process_with_his_number_is_not_he() -> None:
    assert Owner.here().model_copy(update={"start_ticks": 1}).is_known_dead


@pytest.mark.parametrize("change", [{"boot": "00000000"}, {"pid_namespace": 1}])
def test_one_who_cannot_be_seen_from_here_is_not_called_dead(change: dict[str, object]) -> None:
    assert not Owner.here().model_copy(update={"start_ticks": 1, **change}).is_known_dead
