"""The look at an endpoint, with a real model behind vLLM's wire."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym_core.http.client import HttpPool
from gym_core.http.upstream import Upstream, UpstreamLimits
from gym_core.servers.model.check import EndpointProbe
from gym_core.servers.model.config import EndpointSettings
from gym_core.types.model_call import EndpointReport
from model_servers.vllm_model.app import TOKEN_FIELDS
from tests.live.engines import MODEL_NAME, build_model, needs_tiny_vlm, needs_vllm, tiny_engine, vllm_engine

pytestmark = [pytest.mark.live, pytest.mark.slow]
SETTINGS = EndpointSettings(base_urls=("http://unset",), model=MODEL_NAME, wanted=TOKEN_FIELDS)


@asynccontextmanager
async def probe_of(*urls: str) -> AsyncIterator[EndpointProbe]:
    async with HttpPool() as pool:
        upstream = Upstream(pool, UpstreamLimits(connect_s=5, idle_s=60, total_s=60))
        yield EndpointProbe(upstream, dataclasses.replace(SETTINGS, base_urls=urls))


async def look(*urls: str) -> EndpointReport:
    async with probe_of(*urls) as probe:
        return await probe.report()


def check_good(report: EndpointReport, *, side_px: int, mode: str = "raw", takes_ids: bool = True) -> None:
    assert (report.ok, report.message, report.leaks_list_content) == (True, "", False)
    assert (report.gives_token_ids, report.gives_logprobs) == (True, True)
    assert (report.logprobs_mode, report.accepts_token_prompts) == (mode, takes_ids)
    assert report.image_tokens is not None
    assert (report.image_tokens.side_px, report.image_tokens.max_tokens) == (side_px, 64)


@needs_tiny_vlm
@pytest.mark.parametrize(
    ("architecture", "side_px", "mode"),
    [("qwen2_vl", 28, "raw"), ("qwen3_vl", 32, "raw"), ("qwen2_vl", 28, "processed")],
)
async def test_what_training_needs_is_learned(tmp_path: Path, architecture: str, side_px: int, mode: str) -> None:
    folder = build_model(tmp_path / "model", "--arch", architecture)
    async with tiny_engine(folder, "--logprobs-mode", f"{mode}_logprobs") as engine:
        check_good(await look(engine.base_url), side_px=side_px, mode=mode)


@needs_tiny_vlm
async def test_a_template_that_prints_lists_is_found(tmp_path: Path) -> None:
    async with tiny_engine(build_model(tmp_path / "model", "--template", "naive")) as engine:
        report = await look(engine.base_url)
    assert (report.answers, report.leaks_list_content, report.ok) == (True, True, False)
    assert "--chat-template-content-format string" in report.message


@needs_tiny_vlm
async def test_two_engines_of_other_settings_are_told_apart(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "model")
    async with tiny_engine(folder) as one, tiny_engine(folder, "--logprobs-mode", "processed_logprobs") as two:
        report = await look(one.base_url, two.base_url)
    assert (report.ok, report.logprobs_mode) == (True, "unknown")
    assert report.message == f"{two.base_url}: logprobs_mode is processed, but raw at {one.base_url}"


@needs_vllm
@needs_tiny_vlm
async def test_vllm_itself_is_read_alike(tmp_path: Path) -> None:
    async with vllm_engine(build_model(tmp_path / "model")) as engine:
        check_good(await look(engine.base_url), side_px=28)
