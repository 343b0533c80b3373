"""A benchmark of easy sums with a picture each, in two forms: one model call a rollout, or OpenCode."""

import io
from pathlib import Path
from typing import Literal

import yaml
from PIL import Image

from gym_core.datasets.images import PreparedImage
from gym_core.datasets.prepared import write_dataset
from gym_core.datasets.visual_question import VisualQuestion, to_task_row
from gym_core.types.wire import JsonObject
from tests.system.endpoints import POLICY_KEY, POLICY_MODEL, Case, Endpoints

Harness = Literal["single_call", "opencode_agent"]


def picture(number: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (40, 30), (number % 256, 80, 120)).save(content, "PNG")
    return content.getvalue()


def question(number: int) -> VisualQuestion:
    return VisualQuestion(
        source_id=str(number),
        taskset="sums",
        category="sums",
        subtype="even" if number % 2 == 0 else "odd",
        image=PreparedImage.from_bytes(picture(number), row=str(number)),
        question=f"Sum [{number}]: what is {number} + {number}?",
        ans_type="blank",
        gold=str(2 * number),
    )


def cases(count: int, *, commands: tuple[str, ...] = ()) -> list[Case]:
    """Every third answer is wrong, every seventh is none."""
    return [Case(f"Sum [{number}]", _words(number), commands) for number in range(count)]


def _words(number: int) -> str:
    return "I cannot tell." if number % 7 == 6 else f"\\boxed{{{_answer(number)}}}"


def _answer(number: int) -> int:
    return 2 * number + (number % 3 == 2)


def expected_reward(number: int) -> float:
    return expected_grade(number)[0]


def expected_grade(number: int) -> tuple[float, str | None, str | None]:
    """Reward, failure kind, extracted answer."""
    if number % 7 == 6:
        return 0.0, "no_final_answer", None
    return float(number % 3 != 2), None, str(_answer(number))


def write_config(folder: Path, count: int, *, harness: Harness = "single_call", **more: JsonObject) -> Path:
    """The benchmark's config file; its data lie beside it. `more` is put over it, by server."""
    data = folder / "sums.jsonl"
    write_dataset(((to_task_row(question(n), instruction=None), question(n).image) for n in range(count)), data)
    config: JsonObject = {
        "sums_server": {
            "resources_servers": {
                "visual_coding_opencode": {
                    "sandbox_provider": "sandbox",
                    "sandbox_config": {"resources": {"cpu": 1, "memory_mib": 2048}},
                    "sandbox_network_access": "model_only",
                    "sandbox_model_server": {"type": "model_servers", "name": "policy_model"},
                    "judge": "matcher",
                }
            }
        },
        "sums_agent": {
            "agent_servers": {
                harness: {"model_server": {"type": "model_servers", "name": "policy_model"}, "timeout_s": 300}
            }
        },
        "sandbox": {"local": {}},
        "sums": {
            "environment_servers": {
                "single_agent_turn_legacy": {
                    "resources_server": {"type": "resources_servers", "name": "sums_server"},
                    "agent_server": {"type": "agent_servers", "name": "sums_agent"},
                    "datasets": [{"name": "sums", "type": "benchmark", "jsonl_fpath": str(data)}],
                }
            }
        },
    }
    path = folder / "sums.yaml"
    path.write_text(yaml.safe_dump(config | more))
    return path


def words(config: Path, endpoints: Endpoints) -> list[str]:
    """Of a command line: this benchmark with the policy behind the endpoint."""
    return [
        "--config", str(config), "--model-type", "vllm_model", f"++policy_base_url={endpoints.policy_url}",
        f"++policy_api_key={POLICY_KEY}", f"++policy_model_name={POLICY_MODEL}",
    ]  # fmt: skip
