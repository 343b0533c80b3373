"""Ids by their place of first use: what went in comes out, however many tokens there are and however large."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.capture.token_table import MAX_PLACES, CodedIds, TokenTable

ids = st.integers(0, 200) | st.sampled_from([151_643, (1 << 18) - 1, 1 << 18, 2**31 - 1])


@given(records=st.lists(st.lists(ids, max_size=300), max_size=6), lost_at=st.integers(0, 6))
@settings(max_examples=200, deadline=None)
def test_records_come_back_in_order_and_one_that_was_not_written_leaves_no_trace(
    records: list[list[int]], lost_at: int
) -> None:
    writer, reader = TokenTable(), TokenTable()
    for position, record in enumerate(records):
        if position == lost_at:
            n_places = len(writer)
            writer.encode(np.array([7, *record, 999], np.int32))
            writer.cut_back(n_places)
        coded = writer.encode(np.array(record, np.int32))
        assert reader.decode(coded).tolist() == record
        assert len(writer) == len(reader)


def test_a_full_table_costs_bytes_and_nothing_else() -> None:
    writer, reader = TokenTable(), TokenTable()
    rng = np.random.default_rng(0)
    for _ in range(4):
        record = rng.integers(0, 1 << 18, 20_000, dtype=np.int32)
        np.testing.assert_array_equal(reader.decode(writer.encode(record)), record)
    assert len(writer) == MAX_PLACES


def test_a_token_that_was_seen_is_one_byte_or_two() -> None:
    table = TokenTable()
    table.encode(np.arange(1000, dtype=np.int32))
    coded = table.encode(np.array([5, 100, 999, 5], np.int32))
    assert (len(coded.symbols_T), len(coded.literals), len(coded.rests)) == (4, 0, 1)


def test_symbols_of_another_table_are_an_error() -> None:
    empty = np.empty(0, np.int32)
    with pytest.raises(ValueError, match="never seen"):
        TokenTable().decode(CodedIds(np.array([5], np.uint8), empty, np.empty(0, np.uint8)))
