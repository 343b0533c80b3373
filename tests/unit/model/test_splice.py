"""Token surgery, on prompts short enough to read."""

from collections.abc import Sequence

import numpy as np
import pytest

from gym_core.capture.recorder import Ids
from gym_core.servers.model.splice import (
    CannotSplice,
    Placeholders,
    find_end_of_turn,
    fold_pictures,
    read_placeholders,
    splice,
)

END, NEWLINE, PAD = 1, 2, 9


def ids(*tokens: int) -> Ids:
    return np.array(tokens, np.int32)


def joined(seen: Sequence[int], rendered: Sequence[int], history: Sequence[int]) -> list[int]:
    return list(splice(ids(*seen), ids(*rendered), history=ids(*history), end_of_turn=END))


@pytest.mark.parametrize(
    ("one", "other", "token"),
    [
        ([5, 6, END, NEWLINE], [5, 7, END, NEWLINE], END),
        ([5, 6, 6, END], [5, 7, END], END),
        ([5, 6], [5, 7], None),
        ([5, 6, END], [5, 6, END], None),
        ([6, END], [5, 6, END], None),
    ],
)
def test_the_end_of_turn_is_the_first_token_that_differing_answers_share_at_their_end(
    one: list[int], other: list[int], token: int | None
) -> None:
    assert find_end_of_turn(ids(*one), ids(*other)) == token


def test_the_sampled_tokens_stay_where_the_template_prints_other_ones() -> None:
    seen = [50, END, NEWLINE, 60, 71, 72, END]
    rendered = [50, END, NEWLINE, 60, 7172, END, NEWLINE, 51, END, NEWLINE, 60]
    assert joined(seen, rendered, rendered[:7]) == [*seen, NEWLINE, 51, END, NEWLINE, 60]


def test_an_answer_that_was_cut_off_gets_the_templates_end() -> None:
    seen = [50, END, NEWLINE, 60, 71, 72]
    rendered = [50, END, NEWLINE, 60, 7172, END, NEWLINE, 51, END, NEWLINE, 60]
    assert joined(seen, rendered, rendered[:7]) == [*seen, END, NEWLINE, 51, END, NEWLINE, 60]


def test_another_kind_of_end_that_was_sampled_is_kept() -> None:
    other_end = 3
    seen = [50, END, NEWLINE, 60, 71, other_end]
    rendered = [50, END, NEWLINE, 60, 71, END, NEWLINE, 51, END]
    assert joined(seen, rendered, rendered[:7]) == [*seen, END, NEWLINE, 51, END]


def test_an_answer_that_spells_out_the_end_of_a_turn_cannot_be_gone_on_from() -> None:
    seen = [50, END, NEWLINE, 60, 71, 81, 82, 83, END]
    rendered = [50, END, NEWLINE, 60, 71, END, END, NEWLINE, 51, END, NEWLINE, 60]
    with pytest.raises(CannotSplice) as failure:
        joined(seen, rendered, rendered[:8])
    assert failure.value.why == "turns_not_counted"


def test_a_render_with_fewer_turns_than_the_history_cannot_be_gone_on_from() -> None:
    with pytest.raises(CannotSplice):
        joined([50, END, 60, 71, END], [60, 71, END], [50, END, 60, 71, END])


@pytest.mark.parametrize(
    ("tokens", "lengths", "folded"),
    [
        ([5, PAD, PAD, PAD, 6], (3,), [5, PAD, 6]),
        ([PAD, PAD, 6, PAD], (2, 1), [PAD, 6, PAD]),
        ([5, PAD, PAD, PAD, 6], (2, 1), [5, PAD, PAD, 6]),  # side by side
    ],
)
def test_each_picture_is_folded_to_one_placeholder(
    tokens: list[int], lengths: tuple[int, ...], folded: list[int]
) -> None:
    assert fold_pictures(ids(*tokens), Placeholders(PAD, lengths)).tolist() == folded


@pytest.mark.parametrize(
    ("tokens", "lengths"),
    [
        ([5, PAD, PAD, 6, PAD], (2,)),  # one more than the picture has
        ([PAD, 6, PAD, PAD], (2, 1)),  # as many, but not where the pictures are
    ],
)
def test_a_placeholder_that_was_sampled_is_noticed(tokens: list[int], lengths: tuple[int, ...]) -> None:
    with pytest.raises(CannotSplice) as failure:
        fold_pictures(ids(*tokens), Placeholders(PAD, lengths))
    assert failure.value.why == "placeholder_sampled"


def test_placeholders_are_read_from_a_render() -> None:
    rendered = ids(5, PAD, PAD, 6, PAD)
    assert read_placeholders(rendered, [(4, 1), (1, 2)]) == Placeholders(PAD, (2, 1))
    assert read_placeholders(rendered, []) is None


def test_pictures_of_several_tokens_are_left_to_the_engine() -> None:
    with pytest.raises(CannotSplice) as failure:
        read_placeholders(ids(PAD, PAD, NEWLINE, PAD), [(0, 4)])
    assert failure.value.why == "placeholder_of_several_tokens"
