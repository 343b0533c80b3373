"""Refusals as endpoints word them, and what they mean."""

import pytest

from gym_core.servers.model.rejections import (
    ContextFull,
    named_fields,
    read_context_refusal,
    read_output_cap,
    speaks_of_picture_limit,
    wants_completion_tokens,
)

WORDINGS = [
    (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, "
        "1000 in the completion). Please reduce the length of the messages or completion.",
        ContextFull(4096, 4000),
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 32768. This model's maximum context length is 32768 "
        "tokens and your request has 10 input tokens (32768 > 32768 - 10). None",
        ContextFull(32768, 10),
    ),
    (
        "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. Please "
        "reduce the length of the input messages.",
        ContextFull(4096, 5000),
    ),
    (
        "You passed 4097 input tokens and requested 0 output tokens. However, the model's context length is only 4096 "
        "tokens, resulting in a maximum input length of 4096 tokens.",
        ContextFull(4096, 4097),
    ),
    (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that ...",
        ContextFull(4096, 5000),
    ),
    (
        "This model's maximum context length is 4096 tokens. However, you requested 3000 output tokens and your prompt "
        "contains at least 1097 input tokens, for a total of at least 4097 tokens.",
        ContextFull(4096, None),
    ),
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens.",
        ContextFull(128000, 150000),
    ),
    ('{"error": {"code": "context_length_exceeded", "message": "too long"}}', ContextFull(None, None)),
    ("the request exceeds the available context size, try increasing it", ContextFull(None, None)),
    ("Unrecognized request argument supplied: logprobs", None),
    ("cannot identify image file", None),
]


@pytest.mark.parametrize(("text", "expected"), WORDINGS)
def test_a_full_context_is_recognised_with_its_numbers(text: str, expected: ContextFull | None) -> None:
    assert read_context_refusal(text) == expected


def test_what_is_left_is_known_only_when_the_prompt_was_counted() -> None:
    assert ContextFull(100, 90).left_tokens == 10
    assert ContextFull(100, None).left_tokens is None


def test_other_refusals_name_fields_and_limits() -> None:
    assert named_fields("unknown: return_token_ids", ["logprobs", "return_token_ids"]) == {"return_token_ids"}
    assert named_fields("top_logprobs", ["logprobs"]) == frozenset()
    assert (
        read_output_cap("max_tokens is too large: 32768. This model supports at most 16384 completion tokens") == 16384
    )
    assert wants_completion_tokens("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    assert not wants_completion_tokens("'max_tokens' or 'max_completion_tokens' is too large: 32768.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("At most 1 image(s) may be provided in one prompt.", True),
        ("At most 2 images may be provided in one request", True),
        ("You set or defaulted to '{\"image\": 1}' in `--limit-mm-per-prompt`, but passed 2 image items", True),
        ("Too many images in the request", True),
        ("exceeds the maximum number of images (20)", True),
        ("cannot identify image file", False),
        ("This model supports at most 16384 completion tokens", False),
    ],
)
def test_a_limit_of_pictures_is_recognised(text: str, expected: bool) -> None:
    assert speaks_of_picture_limit(text) is expected
