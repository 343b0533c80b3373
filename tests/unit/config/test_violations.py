from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, Field, ValidationError, model_validator

from gym_core.config.violations import violations
from gym_core.types.wire import JsonObject, Wire


class Matcher(Wire):
    kind: Literal["matcher"] = "matcher"
    tolerance: float = Field(default=0.0, ge=0)


class Judge(Wire):
    kind: Literal["llm"] = "llm"
    attempts: int = Field(default=3, le=9)


class Limits(Wire):
    cpu: float = Field(default=1, lt=64)
    memory_mib: int = 512

    @model_validator(mode="after")
    def _enough(self) -> "Limits":
        if self.memory_mib < self.cpu:
            raise ValueError("Too little memory for so many cores")
        return self


def _plain(url: str) -> str:
    if not url.startswith("http://"):
        raise ValueError("Not a plain address")
    return url


Url = Annotated[str, AfterValidator(_plain)]


class Block(Wire):
    urls: Url | list[Url] | None = None
    grader: Matcher | list[Judge] | None = None
    grading: Annotated[Matcher | Judge, Field(discriminator="kind")] = Matcher()
    limits: Limits | None = None
    each: list[Limits] = []
    named: dict[str, Limits] = {}
    mode: Literal["fast", "exact"] = "fast"
    url: str


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({}, ("b.url", "missing")),
        ({"url": "x", "mode": "fats"}, ("b.mode", "'fats' is not one of fast, exact; did you mean 'fast'?")),
        ({"url": "x", "limits": {"cpu": 64}}, ("b.limits.cpu", "64 is not < 64")),
        ({"url": "x", "limits": {"cpus": 1}}, ("b.limits.cpus", "unknown field; did you mean 'cpu'?")),
        ({"url": "x", "each": [{}, {"memory": 1}]}, ("b.each.1.memory", "unknown field; did you mean 'memory_mib'?")),
        ({"url": "x", "named": {"a": {"cpu": 99}}}, ("b.named.a.cpu", "99 is not < 64")),
        ({"url": "x", "grading": {"kind": "llm", "attempts": 10}}, ("b.grading.attempts", "10 is not <= 9")),
        (
            {"url": "x", "grading": {"kind": "llm", "attemps": 1}},
            ("b.grading.attemps", "unknown field; did you mean 'attempts'?"),
        ),
        (
            {"url": "x", "limits": {"cpu": 8, "memory_mib": 1}},
            ("b.limits", "too little memory for so many cores"),
        ),
        ({"url": "x", "mode": "http://u:p@h/v1"}, ("b.mode", "'http://****@h/v1' is not one of fast, exact")),
        ({"url": "x", "urls": "ftp://y"}, ("b.urls", "'ftp://y': not a plain address")),
        ({"url": "x", "urls": ["http://y", "z"]}, ("b.urls.1", "'z': not a plain address")),
        ({"url": "x", "urls": 3}, ("b.urls", "3: should be a valid string or a valid list")),
        ({"url": "x", "urls": {"a": 1}}, ("b.urls", "a mapping: should be a valid string or a valid list")),
        ({"url": "x", "grader": [{"attempts": 10}]}, ("b.grader.0.attempts", "10 is not <= 9")),
        ({"url": "x", "grader": {"tolerance": -1}}, ("b.grader.tolerance", "-1 is not >= 0")),
        ({"url": None}, ("b.url", "null: input should be a valid string")),
        ({"url": "x", "limits": {"cpu": "y" * 200}}, None),
    ],
)
def test_a_violation_reads_like_a_sentence(block: JsonObject, expected: tuple[str, str] | None) -> None:
    with pytest.raises(ValidationError) as caught:
        Block.model_validate(block)
    found = violations(caught.value, Block, "b")
    if expected is None:
        assert len(found[0][1]) < 200
    else:
        assert found == [expected]
