"""Sessions of known shape, joined."""

import pytest

from gym_core.capture.recorder import CallTokens
from gym_core.capture.sequences import Piece, SessionSequences, join
from gym_core.types.sample import BranchLabel, DriftReason
from gym_core.types.wire import JsonObject
from tests.fakes.captured import pieces_of
from tests.unit.sequences.engine import (
    Recorded,
    Said,
    decode,
    digest,
    picture,
    render,
    result,
    spell,
    system,
    user,
)

TOOLS = '[{"name": "look"}]'
START = [system("be good"), user("what is it", picture("red"))]


def trained(sequences: SessionSequences) -> list[list[str]]:
    """The calls that each piece trains."""
    return [[span.call.call_id for span in piece.spans if span.is_trained] for piece in pieces_of(sequences)]


def labels(sequences: SessionSequences) -> list[tuple[str, ...]]:
    return [(branch.label, *branch.call_ids) for branch in sequences.branches]


def only_piece(sequences: SessionSequences) -> Piece:
    (piece,) = pieces_of(sequences)
    return piece


def chain(
    recorded: Recorded, start: list[JsonObject], length: int, *, name: str = "t", **said: object
) -> list[JsonObject]:
    """Calls with a tool's result after each; the conversation after the last of them."""
    messages = list(start)
    for n in range(length):
        answer = Said(f"step {n} ", tool_ids=(f"{name}{n}",), **said)  # type: ignore[arg-type]  # words of Said
        recorded.ask(messages, answer, tools=TOOLS)
        messages += [answer.echo(), result(f"{name}{n}", f"seen {n}")]
    return messages


def test_one_conversation_is_one_sequence() -> None:
    recorded = Recorded()
    messages = chain(recorded, START, 3)
    recorded.ask([*messages, user("so", picture("blue"))], Said("done"), tools=TOOLS)
    sequences = join(recorded.calls, final_answer=" done\n")
    piece = only_piece(sequences)
    assert labels(sequences) == [("main", "c0", "c1", "c2", "c3")]
    assert piece.token_ids.tolist() == render([*messages, user("so", picture("blue"))], TOOLS) + Said("done").sampled()
    assert [(image.sha256, image.call_id) for image in piece.images] == [(digest("red"), "c0"), (digest("blue"), "c3")]
    dtypes = [array.dtype.name for array in (piece.token_ids, piece.loss_mask, piece.logprobs)]
    assert dtypes == ["int32", "int8", "float32"]
    assert decode(piece.token_ids[piece.loss_mask == 1].tolist()).count("step") == 3
    assert sequences.summary.model_dump() == {
        "calls": 4, "incomplete_calls": 0, "branches": {"main": 1}, "pieces": 1,
        "sampled_tokens": sum(len(call.tokens.ids_S) for call in recorded.calls if call.tokens),
        "tokens": len(piece.token_ids), "drifts": {}, "drifted_tokens": 0,
    }  # fmt: skip


def test_the_longest_of_two_answers_that_both_match_is_the_parent() -> None:
    """A stream that was cut without its end, and its retry with it: the first prototype took the most recent match."""
    for cut_first in (True, False):
        recorded = Recorded()
        cut, whole = Said("the answer", ends=False), Said("the answer")
        for answer in (cut, whole) if cut_first else (whole, cut):
            recorded.ask(START, answer)
        recorded.ask([*START, whole.echo(), user("and")], Said("done"))
        sequences = join(recorded.calls, final_answer="done")
        parent = "c1" if cut_first else "c0"
        assert labels(sequences) == [("main", parent, "c2"), ("retry", "c0" if cut_first else "c1")]
        assert trained(sequences) == [[parent, "c2"], ["c0" if cut_first else "c1"]]


def test_two_pictures_of_one_size_are_two_conversations() -> None:
    recorded = Recorded()
    other = [system("be good"), user("what is it", picture("blue"))]
    recorded.ask(START, Said("a colour"))
    recorded.ask(other, Said("a colour"))
    recorded.ask([*other, Said("a colour").echo(), user("which")], Said("blue"))
    sequences = join(recorded.calls, final_answer="blue")
    assert labels(sequences) == [("main", "c1", "c2"), ("side", "c0")]


def test_a_picture_swapped_in_the_history_cuts_the_branch_although_the_tokens_are_equal() -> None:
    recorded = Recorded()
    looked = Said("look", tool_ids=("t0",))
    recorded.ask(START, looked, tools=TOOLS)
    swapped = [system("be good"), user("what is it", picture("blue")), looked.echo(), result("t0", "seen")]
    recorded.ask(swapped, Said("blue"), tools=TOOLS)
    sequences = join(recorded.calls, final_answer="blue")
    (drift,) = sequences.drifts
    assert (drift.reason, drift.position, drift.parent_call_id) == (DriftReason.HISTORY_EDITED, 0, "c0")
    assert trained(sequences) == [["c0"], ["c1"]]
    assert [[image.sha256 for image in piece.images] for piece in pieces_of(sequences)] == [
        [digest("red")],
        [digest("blue")],
    ]


def test_a_retry_that_was_not_gone_on_with_is_kept_apart() -> None:
    recorded = Recorded()
    recorded.ask(START, Said("one"))
    recorded.ask(START, Said("other"))
    recorded.ask([*START, Said("one").echo(), user("so")], Said("done"))
    sequences = join(recorded.calls, final_answer="done")
    assert labels(sequences) == [("main", "c0", "c2"), ("retry", "c1")]
    assert [branch.mask_reason for branch in sequences.branches] == [None, None]


@pytest.mark.parametrize(
    ("texts", "final", "found"),
    [
        (("one", "two"), None, [("retry", "ambiguous_retry"), ("retry", "ambiguous_retry")]),
        (("one", "two"), "two", [("main", None), ("retry", None)]),
        (("one", "two"), "one", [("main", None), ("retry", None)]),
        (("one", "one"), "one", [("retry", "ambiguous_retry"), ("retry", "ambiguous_retry")]),
    ],
)
def test_equal_requests_with_nothing_after_them_need_the_final_answer(
    texts: tuple[str, str], final: str | None, found: list[tuple[str, str | None]]
) -> None:
    recorded = Recorded()
    for text in texts:
        recorded.ask(START, Said(text))
    sequences = join(recorded.calls, final_answer=final)
    assert [(branch.label, branch.mask_reason) for branch in sequences.branches] == found
    assert sequences.summary.sampled_tokens == sum(len(Said(text).sampled()) for text in texts)


def test_side_calls_are_told_from_the_main_conversation() -> None:
    recorded = Recorded()
    recorded.ask([system("name it"), user("what is it")], Said("done"))
    messages = chain(recorded, START, 2)
    helper = chain(recorded, [system("you help"), user("look closer")], 1, name="h")
    recorded.ask(helper, Said("a helper's word"), tools=TOOLS)
    recorded.ask(messages, Said("done"), tools=TOOLS)
    assert labels(join(recorded.calls, final_answer="done")) == [
        ("main", "c1", "c2", "c5"), ("title", "c0"), ("subagent", "c3", "c4"),
    ]  # fmt: skip


@pytest.mark.parametrize("final", [None, "", "nobody said this"])
def test_a_conversation_that_was_cut_before_its_answer_is_still_the_main_one(final: str | None) -> None:
    recorded = Recorded()
    recorded.ask([system("name it"), user("what is it")], Said("a title"))
    chain(recorded, START, 2)
    recorded.ask([system("you help"), user("look closer")], Said("a helper's word"), tools=TOOLS)
    assert labels(join(recorded.calls, final_answer=final)) == [
        ("main", "c1", "c2"), ("title", "c0"), ("subagent", "c3"),
    ]  # fmt: skip


@pytest.mark.parametrize("told_as", ["assistant", "user"])
def test_a_conversation_that_starts_anew_from_a_summary(told_as: str) -> None:
    recorded = Recorded()
    messages = chain(recorded, START, 2)
    summary = Said("we looked twice and saw two things")
    recorded.ask([system("sum up"), *messages[1:], user("sum it up")], summary)
    told = summary.echo() if told_as == "assistant" else user(f"So far: {summary.content}.")
    recorded.ask([START[0], user("what did we do"), told, user("go on")], Said("done"), tools=TOOLS)
    sequences = join(recorded.calls, final_answer="done")
    assert labels(sequences) == [("main", "c3"), ("compaction", "c0", "c1", "c2")]
    assert trained(sequences) == [["c3"], ["c0", "c1"], ["c2"]]
    assert [drift.reason for drift in sequences.drifts] == [DriftReason.SYSTEM_CHANGED]


def test_a_template_that_drops_reasoning_cuts_the_branch_and_says_so() -> None:
    for with_decoder in (True, False):
        recorded = Recorded(with_reasoning=False)
        messages = chain(recorded, START, 2, reasoning="let me think about it at length")
        recorded.ask(messages, Said("done"), tools=TOOLS)
        sequences = join(recorded.calls, final_answer="done", decode=decode if with_decoder else None)
        assert labels(sequences) == [("main", "c0", "c1", "c2")]
        assert trained(sequences) == [["c0"], ["c1"], ["c2"]]
        first = sequences.drifts[0]
        sampled = recorded.calls[0].tokens
        assert sampled is not None
        assert sequences.summary.drifts == {DriftReason.REASONING_DROPPED: 2}
        assert (first.position, first.tokens) == (len(sampled.prompt_ids), len(sampled.ids_S))
        assert (first.sampled_tokens, first.call_id, first.parent_call_id) == (len(sampled.ids_S), "c1", "c0")


def test_reasoning_of_an_earlier_answer_that_is_dropped_late_is_told() -> None:
    """As templates do that keep it until the next user turn."""
    recorded = Recorded()
    messages = chain(recorded, START, 3, reasoning="let me think about it")
    messages.append(user("and now"))
    recorded.ask(messages, Said("done"), tools=TOOLS, prompt=render(messages, TOOLS, with_reasoning=False))
    sequences = join(recorded.calls)
    (drift,) = sequences.drifts
    assert (drift.reason, drift.parent_call_id) == (DriftReason.REASONING_DROPPED, "c2")
    assert drift.sampled_tokens == sum(len(call.tokens.ids_S) for call in recorded.calls[:3] if call.tokens)
    assert trained(sequences) == [["c0", "c1", "c2"], ["c3"]]


def test_a_harness_that_drops_reasoning_is_told_without_a_decoder() -> None:
    recorded = Recorded()
    answer = Said("x", reasoning="hmm")
    recorded.ask(START, answer)
    recorded.ask([*START, answer.echo(reasoning=""), user("so")], Said("done"))
    assert [drift.reason for drift in join(recorded.calls).drifts] == [DriftReason.REASONING_DROPPED]


@pytest.mark.parametrize("with_decoder", [True, False])
def test_one_text_in_other_tokens_is_told(with_decoder: bool) -> None:
    recorded = Recorded()
    answer = Said("a text that was sampled in odd tokens", reasoning="hm", in_pairs=True)
    recorded.ask(START, answer)
    recorded.ask([*START, answer.echo(), user("so")], Said("done"))
    sequences = join(recorded.calls, decode=decode if with_decoder else None)
    assert [drift.reason for drift in sequences.drifts] == [DriftReason.RETOKENIZED]
    assert trained(sequences) == [["c0"], ["c1"]]


@pytest.mark.parametrize("with_decoder", [True, False])
def test_another_rendering_of_one_message_is_told(with_decoder: bool) -> None:
    recorded = Recorded()
    answer = Said("look ", tool_ids=("t0",), argument="1.0")
    recorded.ask(START, answer, tools=TOOLS)
    echo = Said("look ", tool_ids=("t0",), argument="1").echo()
    recorded.ask([*START, echo, result("t0", "seen")], Said("done"), tools=TOOLS)
    sequences = join(recorded.calls, decode=decode if with_decoder else None)
    assert [drift.reason for drift in sequences.drifts] == [DriftReason.RERENDERED]
    (drift,) = sequences.drifts
    tokens = recorded.calls[0].tokens
    assert tokens is not None
    assert (drift.tokens, drift.sampled_tokens) == (6, 6)  # `.0}"}` and the end


def test_white_space_that_a_template_takes_away_is_another_rendering() -> None:
    recorded = Recorded()
    answer = Said("a b  ")
    recorded.ask(START, answer)
    messages = [*START, answer.echo(), user("so")]
    recorded.ask(messages, Said("done"), prompt=render([*START, Said("a b").echo(), user("so")]))
    for decoder in (decode, None):
        assert [d.reason for d in join(recorded.calls, decode=decoder).drifts] == [DriftReason.RERENDERED]


@pytest.mark.parametrize("what", ["system", "tools"])
def test_a_changed_system_prompt_or_tool_is_told(what: str) -> None:
    recorded = Recorded()
    messages = chain(recorded, START, 2)
    head = system("be better") if what == "system" else START[0]
    recorded.ask([head, *messages[1:]], Said("done"), tools=TOOLS if what == "system" else '[{"name": "see"}]')
    sequences = join(recorded.calls, final_answer="done")
    assert labels(sequences) == [("main", "c0", "c1", "c2")]
    assert trained(sequences) == [["c0", "c1"], ["c2"]]
    assert [drift.reason for drift in sequences.drifts] == [DriftReason.SYSTEM_CHANGED]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda messages: [*messages[:3], result("t0", "cleared"), *messages[4:]], id="a tool's result"),
        pytest.param(lambda messages: [messages[0], user("something else"), *messages[2:]], id="the question"),
        pytest.param(lambda messages: [*messages[:2], Said("told otherwise").echo(), *messages[4:]], id="an answer"),
        pytest.param(lambda messages: [*messages[:2], *messages[4:]], id="a turn left out"),
    ],
)  # fmt: skip
def test_an_edited_history_cuts_the_branch_and_says_so(edit: object) -> None:
    recorded = Recorded()
    messages = chain(recorded, START, 3)
    assert callable(edit)
    recorded.ask(edit(messages), Said("done"), tools=TOOLS)
    sequences = join(recorded.calls, final_answer="done")
    assert labels(sequences) == [("main", "c0", "c1", "c2", "c3")]
    assert trained(sequences) == [["c0", "c1", "c2"], ["c3"]]
    assert [(d.reason, d.parent_call_id) for d in sequences.drifts] == [(DriftReason.HISTORY_EDITED, "c2")]


def test_a_picture_edited_into_the_history_later_is_not_in_the_piece_before() -> None:
    recorded = Recorded()
    looked = Said("look", tool_ids=("t0",))
    recorded.ask(START, looked, tools=TOOLS)
    swapped = [START[0], user("what is it", picture("blue")), looked.echo(), result("t0", "seen")]
    recorded.ask(swapped, Said("blue"), tools=TOOLS, gaps=["no_usage"])
    (piece,) = pieces_of(join(recorded.calls, final_answer="blue"))
    assert [image.sha256 for image in piece.images] == [digest("red")]


def test_the_last_answer_altered_or_left_out_is_an_edit() -> None:
    for later in ([Said("told otherwise").echo(), user("so")], [user("so")]):
        recorded = Recorded()
        messages = chain(recorded, START, 1)
        recorded.ask(messages, Said("a wrong answer"), tools=TOOLS)
        recorded.ask([*messages, *later], Said("done"), tools=TOOLS)
        sequences = join(recorded.calls, final_answer="done")
        assert labels(sequences) == [("main", "c0", "c1", "c2")]
        (drift,) = sequences.drifts
        assert (drift.reason, drift.parent_call_id) == (DriftReason.HISTORY_EDITED, "c1")
        second = list(pieces_of(sequences))[1]
        assert [(span.call.call_id, span.is_trained) for span in second.spans] == [("c0", False), ("c2", True)]


def test_a_fork_off_an_earlier_turn_is_a_branch_and_no_edit() -> None:
    recorded = Recorded()
    messages = chain(recorded, START, 3)
    recorded.ask([*messages[:3], result("t0", "seen otherwise")], Said("else"), tools=TOOLS)
    recorded.ask(messages, Said("done"), tools=TOOLS)
    sequences = join(recorded.calls, final_answer="done")
    assert labels(sequences) == [("main", "c0", "c1", "c2", "c4"), ("side", "c0", "c3")]
    assert (sequences.drifts, trained(sequences)) == ((), [["c0", "c1", "c2", "c4"], ["c3"]])


def test_an_answer_that_was_never_kept_breaks_nothing() -> None:
    recorded = Recorded()
    messages = chain(recorded, START, 1)
    recorded.ask(messages, Said("half"), tools=TOOLS, outcome="abandoned", answer=None, gaps=None)
    recorded.ask([*messages, Said("half").echo(), user("go on")], Said("done"), tools=TOOLS)
    sequences = join(recorded.calls, final_answer="done")
    assert labels(sequences) == [("main", "c0", "c2")]
    assert (trained(sequences), sequences.drifts) == ([["c0", "c2"]], ())
    assert [(call.call_id, call.why) for call in sequences.untrained] == [("c1", "abandoned")]


def test_a_call_whose_capture_lacks_something_is_told_and_never_trained() -> None:
    recorded = Recorded()
    messages = chain(recorded, START, 3)
    recorded.ask(messages, Said("done"), tools=TOOLS)
    recorded.calls[1].facts["gaps"] = ["no_usage"]
    sequences = join(recorded.calls, final_answer="done")
    piece = only_piece(sequences)
    assert labels(sequences) == [("main", "c0", "c1", "c2", "c3")]
    assert [(call.call_id, call.why) for call in sequences.untrained] == [("c1", "no_usage")]
    assert (trained(sequences), sequences.drifts) == ([["c0", "c2", "c3"]], ())
    assert "step 1" not in decode(piece.token_ids[piece.loss_mask == 1].tolist())
    assert (sequences.summary.calls, sequences.summary.incomplete_calls) == (3, 1)


def test_captures_of_older_versions_are_complete_when_their_arrays_are() -> None:
    recorded = Recorded()
    recorded.ask(START, Said("done"))
    recorded.ask(START, Said("short"))
    for call in recorded.calls:
        del call.facts["gaps"]
    tokens = recorded.calls[1].tokens
    assert tokens is not None
    short = CallTokens(tokens.prompt_ids, tokens.ids_S, None)
    object.__setattr__(recorded.calls[1], "tokens", short)
    sequences = join(recorded.calls, final_answer="done")
    assert trained(sequences) == [["c0"]]
    assert [(call.call_id, call.why) for call in sequences.untrained] == [("c1", "ids_not_logprobs")]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"outcome": "failed", "answer": None, "gaps": None}, "failed"),
        ({"outcome": "lost", "answer": None, "gaps": None}, "lost"),
        ({"answer": None}, "no_answer"),
        ({"call_id": 7}, "unreadable"),
        ({"call_id": "c0"}, "unreadable"),
    ],
)
def test_a_call_that_cannot_be_trained_says_why(facts: JsonObject, why: str) -> None:
    recorded = Recorded()
    recorded.ask(START, Said("done"))
    recorded.ask(START, Said("other"), **facts)
    sequences = join(recorded.calls, final_answer="done")
    assert [call.why for call in sequences.untrained] == [why]
    assert trained(sequences) == [["c0"]]


def test_an_answer_without_tokens_and_a_session_without_calls() -> None:
    assert join([]).branches == ()
    assert join([]).main is None
    recorded = Recorded()
    recorded.ask(START, Said("", ends=False))
    sequences = join(recorded.calls)
    assert labels(sequences) == [("main", "c0")]
    assert (trained(sequences), sequences.summary.calls) == ([], 1)


def test_a_prompt_that_was_spelled_in_other_tokens_is_cut_where_it_differs() -> None:
    recorded = Recorded()
    recorded.ask(START, Said("one"))
    messages = [*START, Said("one").echo(), user("so")]
    prompt = render(messages)
    prompt[3] = spell("#")[0]
    recorded.ask(messages, Said("done"), prompt=prompt)
    (drift,) = join(recorded.calls).drifts
    assert (drift.position, drift.reason) == (3, DriftReason.RERENDERED)
    assert drift.sampled_tokens == len(Said("one").sampled())
    assert join(recorded.calls).summary.branches == {BranchLabel.MAIN: 1}
