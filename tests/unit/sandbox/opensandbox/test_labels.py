import re

from hypothesis import given
from hypothesis import strategies as st

from gym_core.sandbox.providers.opensandbox import labels

LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200)


@given(st.dictionaries(st.one_of(words, st.just("gym.owner"), st.just("opensandbox.io/id")), words, max_size=5), words)
def test_any_metadata_fits_the_labels_and_comes_back(metadata: dict[str, str], owner: str) -> None:
    written = labels.written(metadata, {labels.OWNER: owner})
    assert all(LABEL.fullmatch(key) and LABEL.fullmatch(value) for key, value in written.items())
    assert labels.metadata_of(written) == metadata
    assert labels.own_word(written, labels.OWNER) == owner


def test_what_fits_is_readable() -> None:
    assert labels.written({"episode": "run-7.a0"}, {labels.ID: "box"}) == {"episode": "run-7.a0", "gym.id": "box"}


def test_labels_that_somebody_broke_are_no_words() -> None:
    assert labels.own_word({"gym.owner.0": "not base32!"}, labels.OWNER) == ""
    assert labels.metadata_of({"a": "b", "gym.rest.0": "MFRGG"}) == {"a": "b"}
