"""The evaluator's two commands, word for word, against endpoints whose script implies every figure."""

import asyncio
import base64
import itertools
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gym_core.capture.images import parse_reference
from gym_core.config.roots import INSTALL_DIR
from gym_core.sandbox import toolkit
from tests.system import babyvision
from tests.system.babyvision import Row
from tests.system.endpoints import JUDGE_KEY, JUDGE_MODEL, POLICY_KEY, POLICY_MODEL, Endpoints, open_endpoints
from tests.system.house import House

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not toolkit.is_built(), reason="no toolkit: run `gym sandbox build`"),
]

BENCHMARKS = ("babyvision_opencode", "babyvision_opencode_question_only")


def copy_benchmarks(house: House) -> None:
    """Into the working folder, so that the data are written there and not into the installation."""
    for name in BENCHMARKS:
        source = INSTALL_DIR / "benchmarks" / name
        shutil.copytree(source, house.cwd / "benchmarks" / name, ignore=shutil.ignore_patterns("data", "__pycache__"))


def prepare_words(benchmark: str) -> list[str]:
    return ["eval", "prepare", "--benchmark", benchmark]


def run_words(benchmark: str, endpoints: Endpoints) -> list[str]:
    return [
        "eval", "run", "--model-type", "vllm_model", "--benchmark", benchmark,
        f"++output_jsonl_fpath=results/benchmarks/{benchmark}.jsonl", "++split=benchmark",
        "++reuse_existing_data_preparation=true", f"++policy_base_url={endpoints.policy_url}",
        f"++policy_api_key={POLICY_KEY}", f"++policy_model_name={POLICY_MODEL}",
        f"++visual_coding_opencode_judge_base_url={endpoints.judge_url}",
    ]  # fmt: skip


async def play(house: House, benchmark: str, rows: Sequence[Row]) -> tuple[int, Endpoints]:
    """Exit code of the run, and what the endpoints saw."""
    copy_benchmarks(house)
    parquet = babyvision.write_parquet(rows, house.folder / "babyvision.parquet")
    house.environment |= {"BABYVISION_PARQUET": str(parquet), "OPENAI_API_KEY": JUDGE_KEY}
    async with open_endpoints(house, house.folder / "endpoints", [row.case for row in rows]) as endpoints:
        prepared = await house.run(*prepare_words(benchmark))
        assert prepared.code == 0, prepared.err
        ended = await house.run(*run_words(benchmark, endpoints), timeout_s=300)
        await house.all_gone()
    print(ended.out, ended.err)  # shown when a test fails
    return ended.code, endpoints


def results(house: House, benchmark: str) -> Path:
    return house.cwd / "results" / "benchmarks" / f"{benchmark}.jsonl"


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.stem + ending)


def images_of(body: Any) -> list[bytes]:  # Any: a request as it came
    """Bytes of every picture in a chat request's messages, in order."""
    parts = [p for m in body["messages"] if isinstance(m["content"], list) for p in m["content"]]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(",")[2]) for url in urls]


async def test_the_two_commands_give_what_the_script_implies(house: House) -> None:
    rows, benchmark = babyvision.rows(), "babyvision_opencode"
    async with asyncio.timeout(420):
        code, endpoints = await play(house, benchmark, rows)
    path = results(house, benchmark)
    assert code == 1  # two of eight masked is more than the limit
    found = {int(row["source_id"]): row for row in house.rows(path)}
    assert {i: (r["reward"], r["failure_kind"], r["mask_sample"]) for i, r in found.items()} == {
        row.task_id: (row.reward, row.failure_kind, row.reward is None) for row in rows
    }
    assert len(house.rows(path)) == len(rows)
    check_metrics(path, rows)
    check_judge(rows, found, endpoints)
    check_secrecy(rows, endpoints)
    check_pictures(rows, endpoints)
    check_files(path, rows)


def check_metrics(path: Path, rows: Sequence[Row]) -> None:
    metrics = json.loads(beside(path, "_aggregate_metrics.json").read_text())
    graded = [row.reward for row in rows if row.reward is not None]
    assert metrics["key_metrics"]["mean/reward"] == pytest.approx(sum(graded) / len(graded))
    coverage = {"expected": 8, "finished": 8, "measured": 6, "masked": 2, "missing": 0, "fully_masked_tasks": 2}
    assert metrics["coverage"] == coverage
    assert metrics["failures"] == {"judge_failed": 1, "judge_unparseable": 1, "no_final_answer": 1, "output_cap": 1}
    spend = metrics["spend"]
    judged = sum(row.is_judged for row in rows)
    assert (
        spend["judge"]["calls"] == judged
    )  # the one that failed was not answered, the one of nonsense was asked twice
    assert (spend["judge"]["input"] > 0, spend["judge"]["uncounted_calls"], spend["cost"]) == (True, 0, None)
    assert (spend["policy"]["input"] > 0, spend["policy"]["uncounted_calls"]) == (True, 0)
    assert spend["sandbox_s"] > spend["wall_s"] > 0


def check_judge(rows: Sequence[Row], found: dict[int, Any], endpoints: Endpoints) -> None:
    """Asked about answers alone, with all that it needs and nothing more."""
    bodies = [body.decode() for body in endpoints.judge_bodies()]
    assert all(json.loads(body)["model"] == JUDGE_MODEL for body in bodies)
    assert not any("image" in part for body in bodies for part in re.findall(r'"type": ?"(\w+)"', body))
    for row in rows:
        asked = [body for body in bodies if row.case.phrase in body]
        assert bool(asked) == row.is_judged, row.task_id
        assert all(row.gold in body for body in asked)
        if row.is_judged and row.reward is not None:
            assert len(asked) == 1
            assert found[row.task_id]["judge_verdict"] == ("equivalent" if row.reward else "different")
            assert json.loads(found[row.task_id]["judge_raw_reply"])["reason"] == "compared as text"
            assert found[row.task_id]["judge_model"] == JUDGE_MODEL
    nonsense = next(row for row in rows if row.case.judge == "nonsense")
    assert found[nonsense.task_id]["judge_raw_reply"] == "I like turtles"


def check_secrecy(rows: Sequence[Row], endpoints: Endpoints) -> None:
    """Gold answers and solutions never reached the policy's endpoint, nor any key the wrong one."""
    bodies = b"\n".join(endpoints.policy_bodies())
    assert bodies
    assert babyvision.SOLUTION.encode() not in bodies + b"\n".join(endpoints.judge_bodies())
    for row in rows:
        # What the model said comes back to it: there the gold may stand, if the model found it.
        seen = [
            body for body in endpoints.policy_bodies() if row.case.phrase.encode() in body and not is_answered(body)
        ]
        assert seen
        assert row.options or all(row.gold.encode() not in body for body in seen)
        assert row.gold in row.case.says or row.gold.encode() not in bodies
    for key in (POLICY_KEY, JUDGE_KEY):
        assert key.encode() not in bodies + b"\n".join(endpoints.judge_bodies())


def is_answered(body: bytes) -> bool:
    return any(message["role"] == "assistant" for message in json.loads(body)["messages"])


def check_bare_questions(rows: Sequence[Row], endpoints: Endpoints) -> None:
    """All that users say is OpenCode's note of the picture, the question with its choices, and the box's sentence."""
    bodies = [json.loads(body) for body in endpoints.policy_bodies()]
    for row in rows:
        asked = [texts for body in bodies if row.case.phrase in "".join(texts := user_texts(body))]
        assert asked
        for note, read, question in asked:
            assert re.fullmatch(
                r'Called the Read tool with the following input: {"filePath":"/workspace/[\w.]+"}', note
            )
            assert read == "Image read successfully"
            assert question == bare_question(row)


def bare_question(row: Row) -> str:
    choices = [f"({letter}) {option}" for letter, option in zip("ABCD", row.options, strict=False)]
    box = "Work the question out step by step, then end your reply with the final answer, once, in the form"
    question = f"{row.case.phrase} What does the picture hide?"
    return "\n".join([question, *(["Choices:", *choices] if choices else []), f"{box} \\boxed{{answer}}."])


def user_texts(body: Any) -> list[str]:  # Any: a request as it came
    """Texts of a chat request's user messages, in order."""
    contents = [message["content"] for message in body["messages"] if message["role"] == "user"]
    parts = [[{"type": "text", "text": item}] if isinstance(item, str) else item for item in contents]
    return [part["text"] for part in itertools.chain(*parts) if part["type"] == "text"]


def check_pictures(rows: Sequence[Row], endpoints: Endpoints) -> None:
    """The policy saw the row's own bytes, however they were named."""
    bodies = [json.loads(body) for body in endpoints.policy_bodies()]
    for row in rows:
        asked = [body for body in bodies if row.case.phrase in json.dumps(body["messages"])]
        assert asked
        for body in asked:
            assert images_of(body)[0] == row.image, row.task_id


def check_files(path: Path, rows: Sequence[Row]) -> None:
    """Each picture once, and no secret in anything that was written."""
    assets = beside(path, "_assets")
    by_hash = {file.name: file.read_bytes() for file in assets.iterdir()}
    assert {row.image for row in rows} <= set(by_hash.values())
    for line in path.read_text().splitlines():
        [message] = json.loads(line)["responses_create_params"]["input"]
        shown = [part["image_url"] for part in message["content"] if part["type"] == "input_image"]
        assert all(parse_reference(url) in by_hash for url in shown)
    for file in (f for f in path.parent.rglob("*") if f.is_file()):
        content = file.read_bytes()
        assert not any(secret.encode() in content for secret in (POLICY_KEY, JUDGE_KEY, babyvision.SOLUTION)), file


async def test_question_only_sends_the_bare_question_and_exits_with_0_when_nothing_is_masked(house: House) -> None:
    rows = [row for row in babyvision.rows() if row.reward is not None]
    benchmark = "babyvision_opencode_question_only"
    async with asyncio.timeout(420):
        code, endpoints = await play(house, benchmark, rows)
        assert code == 0
        check_bare_questions(rows, endpoints)
        found = {int(row["source_id"]): row["reward"] for row in house.rows(results(house, benchmark))}
        assert found == {row.task_id: row.reward for row in rows}
        check_secrecy(rows, endpoints)
        check_pictures(rows, endpoints)
