"""What a probe concludes from what an endpoint showed it."""

import math
from collections.abc import Sequence

import pytest

from gym_core.servers.model.probe_merge import merge_reports
from gym_core.servers.model.probe_training import LogprobsMode, read_logprobs_mode, shows_list
from gym_core.servers.model.probe_wire import TokenLogprob, TopLogprob
from gym_core.types.model_call import EndpointReport, ImageTokens

PEAKED = (9.0, 1.0, 0.5, 0.0, -2.0)
FLAT = (0.10, 0.08, 0.05, 0.02, 0.0)


def shown(logits: Sequence[float], *, temperature: float = 1.0, noise: float = 0.0) -> list[TokenLogprob]:
    scaled = [logit / temperature for logit in logits]
    total = math.log(sum(map(math.exp, scaled)))
    top = [TopLogprob(chr(97 + i), logit - total + noise * (-1) ** i) for i, logit in enumerate(scaled)]
    return [TokenLogprob("a", top[0].logprob, top)]


@pytest.mark.parametrize("logits", [PEAKED, FLAT])
@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_raw_values_stay_and_processed_ones_follow_the_temperature(logits: Sequence[float], noise: float) -> None:
    plain = shown(logits)
    assert read_logprobs_mode(plain, shown(logits, noise=noise)) == "raw"
    assert read_logprobs_mode(plain, shown(logits, temperature=2.0, noise=noise)) == "processed"


CUT = [TokenLogprob("a", 0.0, [TopLogprob("a", 0.0), TopLogprob("b", -9999.0)])]
UNREADABLE = [TokenLogprob("a", -1.0, [TopLogprob("�", -1.0), TopLogprob("�", -2.0), TopLogprob("a", -3.0)])]


@pytest.mark.parametrize(
    ("at_one", "at_two", "expected"),
    [
        ([], [], "unknown"),
        (shown(PEAKED), [], "unknown"),
        ([TokenLogprob("a", -1.0)], [TokenLogprob("a", -1.0)], "unknown"),
        (shown((1.0, 1.0, 1.0)), shown((1.0, 1.0, 1.0)), "unknown"),
        (CUT, CUT, "processed"),
        (UNREADABLE, UNREADABLE, "unknown"),
    ],
)
def test_a_mode_is_not_guessed(at_one: list[TokenLogprob], at_two: list[TokenLogprob], expected: LogprobsMode) -> None:
    assert read_logprobs_mode(at_one, at_two) == expected


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        ("<|im_start|>system\n[{'type': 'text', 'text': 'You are helpful.'}]", True),
        ("[{'text': 'Look', 'type': 'text'}, {'type': 'image'}]", True),
        ('{"type": "text", "text": "JSON that a user wrote"}', False),
        ("You are helpful.", False),
    ],
)
def test_a_list_as_program_text_is_known(text: str, leaks: bool) -> None:
    assert shows_list(text) is leaks


def report(**fields: object) -> EndpointReport:
    known = {
        "ok": True, "answers": True, "message": "", "model": "m", "served_models": ["m"], "context_tokens": 8192,
        "gives_logprobs": True, "gives_token_ids": True, "accepts_images": True, "logprobs_mode": "raw",
        "image_tokens": ImageTokens(token_id=9, side_px=28),
    }  # fmt: skip
    return EndpointReport.model_validate(known | fields)


URLS = ("http://a/v1", "http://b/v1", "http://c/v1")


def test_endpoints_that_are_alike_are_one() -> None:
    assert merge_reports(URLS, [report()] * 3) == report()
    assert merge_reports(URLS[:1], [report(message="x")]) == report(message="x")


@pytest.mark.parametrize(
    ("fields", "least", "said"),
    [
        ({"context_tokens": 4096}, {"context_tokens": 4096}, "http://b/v1: context_tokens is 4096, but 8192 at"),
        ({"context_tokens": None}, {"context_tokens": 8192}, "context_tokens is None"),
        ({"gives_token_ids": False}, {"gives_token_ids": False}, "gives_token_ids is False"),
        ({"logprobs_mode": "processed"}, {"logprobs_mode": "unknown"}, "logprobs_mode is processed"),
        ({"image_tokens": None}, {"image_tokens": None}, "image_tokens is None"),
        ({"accepts_images": False, "ok": False}, {"accepts_images": False, "ok": False}, "accepts_images is False"),
        ({"leaks_list_content": True}, {"leaks_list_content": True}, "leaks_list_content is True"),
        ({"served_models": ["n"]}, {"served_models": ["m", "n"]}, "http://b/v1: it serves n, not m"),
        (
            {"ok": False, "answers": False, "message": "http://b/v1: HTTP 0: refused", "accepts_images": False},
            {"ok": False, "answers": False, "accepts_images": True},
            "http://b/v1: HTTP 0: refused",
        ),
    ],
)
def test_the_one_that_differs_is_named_and_what_all_can_do_is_reported(
    fields: dict[str, object], least: dict[str, object], said: str
) -> None:
    merged = merge_reports(URLS, [report(), report(**fields), report()])
    assert {name: getattr(merged, name) for name in least} == least
    assert said in merged.message
    assert merged.message.count("http://b/v1") == 1
    assert "http://c/v1" not in merged.message
