"""The samples of one rollout: what is in them, and each reason why one is not for training."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.capture.labels import AMBIGUOUS_RETRY
from gym_core.capture.placeholders import ImageProblem
from gym_core.capture.recorder import capture_path
from gym_core.errors import FailureKind
from gym_core.export.mask import MaskReason
from gym_core.export.samples import NoSamples, read_session
from gym_core.export.turns import trained_spans
from gym_core.types.rollout import RolloutRecord
from gym_core.types.sample import BranchLabel, DriftReason, TrainingSample
from gym_core.types.wire import JsonObject
from tests.unit.export.saved_runs import ENDPOINT, IMAGE_TOKEN, FakeRun, FakeSession, damage, picture


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    return FakeRun(tmp_path)


def read(run: FakeRun, record: RolloutRecord, *, branches: str = "main") -> list[TrainingSample]:
    assert branches in ("main", "all")
    kind = "all" if branches == "all" else "main"
    return list(read_session(record, run.files.captures, run.assets, endpoint=ENDPOINT, branches=kind).samples)


def only(run: FakeRun, session: FakeSession, **capture: object) -> TrainingSample:
    (sample,) = read(run, run.record(0, session, **capture))
    return sample


def test_a_session_is_one_sample_with_all_that_was_seen_and_sampled(run: FakeRun) -> None:
    session = run.tool_session()
    sample = only(run, session)
    assert sample.token_ids == session.ids
    sampled = [token for token, marked in zip(sample.token_ids, sample.loss_mask, strict=True) if marked]
    assert sampled == [*map(ord, "reading"), 4, *map(ord, "it is red"), 4]
    assert all(logprob < 0 for logprob, marked in zip(sample.logprobs, sample.loss_mask, strict=True) if marked)
    assert not any(logprob for logprob, marked in zip(sample.logprobs, sample.loss_mask, strict=True) if not marked)
    assert [(call.call_id, call.finish_reason) for call in sample.calls] == [
        ("call-0", "tool_calls"),
        ("call-1", "stop"),
    ]
    assert {(call.temperature, call.policy_version) for call in sample.calls} == {(0.5, 3)}
    assert (sample.sample_id, sample.branch_label) == ("t0-r0-a0.0.0", BranchLabel.MAIN)
    assert (sample.reward, sample.mask_reason, sample.logprobs_mode) == (1.0, None, "raw")
    assert sample.advantage_group == run.record(1, run.tool_session()).key.task_hash[:-1] + "0"


def test_pictures_are_listed_in_the_models_order_with_their_size_and_call(run: FakeRun) -> None:
    sample = only(run, run.tool_session())
    assert [(i.media_type, i.width, i.height, i.call_id) for i in sample.images] == [
        ("image/png", 56, 28, "call-0"),
        ("image/png", 28, 84, "call-1"),
    ]
    assert [i.sha256 for i in sample.images] == [
        run.assets.put(content) for content in (picture(2, 1, "red"), picture(1, 3, "blue"))
    ]


def test_pictures_point_at_their_placeholders(run: FakeRun) -> None:
    sample = only(run, run.tool_session())
    assert [i.grid_hw for i in sample.images] == [(1, 2), (3, 1)]
    for image in sample.images:
        assert image.offset is not None
        assert image.length is not None
        assert sample.token_ids[image.offset : image.offset + image.length] == [IMAGE_TOKEN] * image.length
        assert sample.token_ids[image.offset - 1] == 2


@pytest.mark.parametrize("kind", [FailureKind.JUDGE_FAILED, FailureKind.SANDBOX_LOST])
def test_a_masked_rollout_masks_its_samples_with_the_failure(run: FakeRun, kind: FailureKind) -> None:
    (sample,) = read(run, run.record(0, run.tool_session(), failure=kind))
    assert (sample.mask, sample.mask_reason, sample.reward) == (True, f"rollout_masked:{kind}", None)


def test_a_failure_of_the_model_is_trained_on(run: FakeRun) -> None:
    (sample,) = read(run, run.record(0, run.tool_session(), failure=FailureKind.AGENT_TIMEOUT))
    assert (sample.mask, sample.reward) == (False, 0.0)


def test_a_capture_with_a_hole_masks(run: FakeRun) -> None:
    assert only(run, run.tool_session(), capture_complete=False).mask_reason == MaskReason.CAPTURE_INCOMPLETE


def test_a_garbled_prompt_masks(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?")
    session.answer("it is red", facts={"notes": ["template_leak"]})
    assert only(run, session).mask_reason == MaskReason.TEMPLATE_LEAK


@pytest.mark.parametrize(
    ("sampling", "is_masked"),
    [
        ({"temperature": 1.0, "tool_choice": "auto", "response_format": {"type": "text"}}, False),
        ({"tool_choice": "required"}, True),
        ({"tool_choice": {"type": "function", "function": {"name": "read"}}}, True),
        ({"response_format": {"type": "json_object"}}, True),
        ({"structured_outputs": {"regex": "a+"}}, True),
        ({"guided_json": {}}, True),
    ],
)
def test_an_answer_that_was_forced_into_a_form_masks(run: FakeRun, sampling: JsonObject, is_masked: bool) -> None:
    session = run.session()
    session.say("user", "what?")
    session.answer("it is red", facts={"sampling": sampling})
    assert (only(run, session).mask_reason == MaskReason.CONSTRAINED_SAMPLING) is is_masked


def test_an_answer_that_is_not_whole_masks_its_branch(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?")
    session.answer("reading", tool="read")
    session.say("tool", "here", call="c0")
    session.answer("it is red", has_ids=False)
    sample = only(run, session)
    assert sample.mask_reason == MaskReason.CALL_INCOMPLETE
    assert sum(sample.loss_mask) == len("reading") + 1


def test_a_retry_that_nobody_can_tell_apart_masks_and_is_not_dropped(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?")
    for _ in range(2):
        session.answer("it is red", sampled=[5, 4])
        session.messages.pop()
        del session.ids[-2:]
    session.messages.append({"role": "assistant", "content": "it is red"})
    samples = read(run, run.record(0, session))
    assert [sample.mask_reason for sample in samples] == [MaskReason.AMBIGUOUS_RETRY] * 2


def test_a_picture_that_is_gone_masks(run: FakeRun) -> None:
    session = run.tool_session()
    run.assets.path(run.assets.put(picture(1, 3, "blue"))).unlink()
    sample = only(run, session)
    assert sample.mask_reason == MaskReason.IMAGE_MISSING
    assert [bool(image.media_type) for image in sample.images] == [True, False]


def test_a_picture_whose_bytes_are_damaged_masks(run: FakeRun) -> None:
    record = run.record(0, run.tool_session())
    assert [sample.mask_reason for sample in read(run, record)] == [None]
    damage(run, picture(1, 3, "blue"))
    (sample,) = read(run, record)
    assert sample.mask_reason == MaskReason.IMAGE_MISSING
    assert [bool(image.media_type) for image in sample.images] == [True, False]


def test_placeholders_that_the_picture_does_not_need_mask(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?", (picture(2, 1, "red"), 5))
    session.answer("it is red")
    assert only(run, session).mask_reason == MaskReason.IMAGE_PLACEHOLDERS_MISMATCH


def test_a_placeholder_that_the_policy_sampled_masks(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?", (picture(2, 1, "red"), 2))
    session.answer("it is red", sampled=[9, IMAGE_TOKEN, 4])
    assert only(run, session).mask_reason == MaskReason.SAMPLED_IMAGE_PLACEHOLDER


def test_other_branches_are_there_when_asked_for(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "make a title")
    session.answer("Red things")
    session.messages.clear()
    session.ids.clear()
    session.say("system", "look")
    session.say("user", "what?")
    session.answer("reading", tool="read")
    session.say("tool", "here", call="c1")
    session.answer("it is red")
    record = run.record(0, session)
    assert [s.branch_label for s in read(run, record)] == [BranchLabel.MAIN]
    everything = read(run, record, branches="all")
    assert [s.branch_label for s in everything] == [BranchLabel.MAIN, BranchLabel.TITLE]
    assert len({s.sample_id for s in everything}) == 2


def test_a_session_that_drifted_is_pieces_and_the_second_says_why(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?")
    session.answer("reading", tool="read")
    session.ids[-2] += 1  # another token for the last letter
    session.say("tool", "here", call="c0")
    session.answer("it is red")
    reading = read_session(run.record(0, session), run.files.captures, run.assets, endpoint=ENDPOINT)
    first, second = reading.samples
    assert first.drift is None
    assert second.drift is not None
    assert second.drift.call_id == "call-1"
    assert (first.piece, second.piece, second.mask) == (0, 1, False)
    assert reading.summary is not None
    assert sum(sum(sample.loss_mask) for sample in reading.samples) == reading.summary.sampled_tokens


@pytest.mark.parametrize(
    ("has_file", "has_ids", "missing"),
    [(False, True, NoSamples.NO_CAPTURE), (True, False, NoSamples.NO_TOKEN_IDS)],
)
def test_a_rollout_without_samples_says_why(run: FakeRun, has_file: bool, has_ids: bool, missing: NoSamples) -> None:
    session = run.session()
    if has_file:
        session.say("user", "what?")
        session.answer("it is red", has_ids=has_ids)
    reading = read_session(run.record(0, session), run.files.captures, run.assets)
    assert (reading.missing, list(reading.samples)) == (missing, [])
    assert (reading.summary.incomplete_calls if reading.summary else 0) == has_file


def test_a_damaged_capture_says_so(run: FakeRun) -> None:
    record = run.record(0, run.tool_session())
    (file,) = run.files.captures.iterdir()
    content = bytearray(file.read_bytes())
    content[20] ^= 255
    file.write_bytes(content)
    assert read_session(record, run.files.captures, run.assets).missing is NoSamples.DAMAGED_CAPTURE


def test_a_capture_that_was_cut_at_any_byte_trains_nothing(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?", (picture(2, 1, "red"), 2))
    for number in range(2):
        session.answer("reading", tool="read")
        session.say("tool", "here", call=f"c{number}")
    session.answer("it is red")
    record = run.record(0, session)
    (file,) = run.files.captures.iterdir()
    whole = file.read_bytes()

    def reasons() -> set[str | None]:
        reading = read_session(record, run.files.captures, run.assets, endpoint=ENDPOINT)
        assert reading.samples or reading.missing is not None
        return {sample.mask_reason for sample in reading.samples}

    assert reasons() == {None}
    found: set[str | None] = set()
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        found |= reasons()
    assert found == {MaskReason.CAPTURE_INCOMPLETE.value}


def test_damage_anywhere_in_the_file_of_an_answered_call_is_told_as_damage(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?")
    session.answer("it is red")
    record = run.record(0, session)
    (file,) = run.files.captures.iterdir()
    whole = file.read_bytes()
    found = set()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        file.write_bytes(damaged)
        reading = read_session(record, run.files.captures, run.assets, endpoint=ENDPOINT)
        found.add(reading.missing)
        assert not reading.samples
    assert found == {NoSamples.CAPTURE_INCOMPLETE, NoSamples.DAMAGED_CAPTURE}


def test_a_call_that_was_not_answered_is_no_damage(run: FakeRun) -> None:
    session = run.session()
    session.say("user", "what?")
    session.answer("", facts={"outcome": "abandoned", "answer": None}, has_ids=False)
    reading = read_session(run.record(0, session), run.files.captures, run.assets)
    assert reading.missing is NoSamples.NO_ANSWERED_CALL


def test_captures_that_were_swapped_by_name_give_no_samples(run: FakeRun) -> None:
    records = [run.record(number, run.tool_session()) for number in range(2)]
    assert [len(read(run, record)) for record in records] == [1, 1]
    files = [capture_path(run.files.captures, f"s{number}") for number in range(2)]
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, reversed(contents), strict=True):
        file.write_bytes(content)
    for record in records:
        reading = read_session(record, run.files.captures, run.assets, endpoint=ENDPOINT)
        assert (list(reading.samples), reading.missing) == ([], NoSamples.WRONG_CAPTURE)


def test_every_word_for_what_is_wrong_is_a_mask_reason_and_is_in_the_documents() -> None:
    documents = (Path(__file__).resolve().parents[3] / "docs" / "training.md").read_text(encoding="utf-8")
    assert {problem.value for problem in ImageProblem} | {AMBIGUOUS_RETRY} <= set(MaskReason)
    for word in (*MaskReason, *NoSamples, *DriftReason):
        assert f"`{word}" in documents, word


def test_a_sample_of_an_endpoint_that_nobody_looked_at_lists_its_pictures_without_places(run: FakeRun) -> None:
    (sample,) = read_session(run.record(0, run.tool_session()), run.files.captures, run.assets).samples
    assert [image.offset for image in sample.images] == [None, None]
    assert (sample.mask_reason, sample.logprobs_mode) == (None, "unknown")


@settings(max_examples=25, deadline=None)
@given(turns=st.lists(st.tuples(st.text("abc ", min_size=1), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_whatever_a_session_looked_like_every_sampled_token_is_trained_once(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[str, bool, bool]]
) -> None:
    """Turns: what is said, whether with a picture, and whether its answer comes back in other tokens."""
    run = FakeRun(tmp_path_factory.mktemp("run"))
    session = run.session()
    for number, (text, has_picture, drifts) in enumerate(turns):
        session.say("user", text, *([(picture(2, 1, "red"), 2)] if has_picture else []))
        session.answer(f"answer {number}")
        if drifts:
            session.ids[-3] += 1
    samples = read(run, run.record(0, session), branches="all")
    assert sum(sum(sample.loss_mask) for sample in samples) == sum(len(f"answer {n}") + 1 for n in range(len(turns)))
    for sample in samples:
        assert trained_spans(sample)
        assert len(sample.token_ids) == len(sample.loss_mask) == len(sample.logprobs)
        assert sample.token_ids.count(IMAGE_TOKEN) == sum(image.length or 0 for image in sample.images)
        assert [image.offset for image in sample.images] == sorted(image.offset or 0 for image in sample.images)
        assert sample.mask_reason is None
