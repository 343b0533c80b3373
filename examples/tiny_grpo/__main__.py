"""python -m examples.tiny_grpo: train a tiny vision model to name colours, through the whole gym, on a CPU.

Writes model, logs, `steps.jsonl` and `curve.svg` into --out. Exit code 1 when the run did not do what it must: the
reward rises above 0.9 and the trainer's log-probabilities agree with the captured ones; or, for a control, neither.
"""

import argparse
import asyncio
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from examples.tiny_grpo.curve import draw_curve
from examples.tiny_grpo.engine import Engine
from examples.tiny_grpo.policy import TinyPolicy
from examples.tiny_grpo.services import started_services
from examples.tiny_grpo.training import Control, Settings, Trainer, TrainingStep
from examples.tiny_vlm.build import Recipe, build
from gym_core.client import GymClient

LEARNED_REWARD = 0.9
CHANCE_REWARD = 0.45
"""Chance is 0.25; a run that stays below this has learned nothing from the pictures."""
AGREEING_GAP = 1e-4
"""fp32 on a CPU; a picture too many, too few or in the wrong place is 0.01 and more."""
LAST_STEPS = 5


def main() -> int:
    args = _parse()
    settings = Settings(steps=args.steps, seed=args.seed, control=args.control)
    args.out.mkdir(parents=True, exist_ok=True)
    steps = asyncio.run(_run(args.out, settings))
    rewards = [step.reward for step in steps]
    (args.out / "curve.svg").write_text(draw_curve(rewards, title=_title(settings)), encoding="utf-8")
    return _judge(steps, settings)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.tiny_grpo", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/tiny_grpo"))
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--control", choices=get_args(Control), default="none", help="a run that must not learn")
    return parser.parse_args()


async def _run(out: Path, settings: Settings) -> list[TrainingStep]:
    model_dir = out / "model"
    shutil.rmtree(model_dir, ignore_errors=True)
    build(model_dir, Recipe(seed=settings.seed))
    started = time.monotonic()
    steps: list[TrainingStep] = []
    with started_services(model_dir, out) as services, (out / "steps.jsonl").open("w", encoding="utf-8") as file:
        async with GymClient(services.head_url, services.token) as gym, Engine(services.engine_url) as engine:
            policy = TinyPolicy(model_dir, learning_rate=settings.learning_rate)
            trainer = Trainer(policy, gym, engine, settings)
            _say(f"services up; warm-up loss {await trainer.warm_up():.3f}, {time.monotonic() - started:.0f} s")
            async for step in trainer.train():
                steps.append(step)
                file.write(json.dumps(asdict(step)) + "\n")
                if step.index % 5 == 0 or step.index == settings.steps - 1:
                    _say(_line(step, steps, time.monotonic() - started))
    return steps


def _line(step: TrainingStep, steps: Sequence[TrainingStep], seconds: float) -> str:
    recent = _mean([s.reward for s in steps[-LAST_STEPS:]])
    return (
        f"step {step.index:3d}  reward {step.reward:.3f}  last {LAST_STEPS}: {recent:.3f}  "
        f"max|train - captured| {step.report.max_gap:.1e}  masked {step.masked}  {seconds:.0f} s"
    )


def _judge(steps: Sequence[TrainingStep], settings: Settings) -> int:
    reward = _mean([step.reward for step in steps[-LAST_STEPS:]])
    gap = max(step.report.max_gap for step in steps)
    agrees = gap < AGREEING_GAP
    good = {
        "none": reward > LEARNED_REWARD and agrees,
        "blind": reward < CHANCE_REWARD and agrees,
        "wrong_picture": reward < CHANCE_REWARD and not agrees,
    }[settings.control]
    _say(f"{'as it must be' if good else 'NOT AS IT MUST BE'}: {_title(settings)}: reward {reward:.3f}, gap {gap:.1e}")
    return 0 if good else 1


def _title(settings: Settings) -> str:
    name = "naming colours" if settings.control == "none" else f"control: {settings.control.replace('_', ' ')}"
    return f"{name}, seed {settings.seed}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
