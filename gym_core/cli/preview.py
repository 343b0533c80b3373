"""What a run would do and what it would take, as lines for people."""

from collections.abc import Callable

from gym_core.cli.terminal import counted, duration, money, printable, table
from gym_core.launch.preview import ModelPreview, RunPreview, SandboxPreview
from gym_core.types.cost import Forecast, RestEstimate, TokenPrices


def preview_lines(preview: RunPreview) -> list[str]:
    rows = [
        ("environment", preview.environment),
        ("data", _data_text(preview)),
        ("rollouts", _rollouts_text(preview)),
        ("policy", _model_text(preview.policy)),
        ("judge", _model_text(preview.judge) if preview.judge else "no model: graded by rule"),
        ("sandboxes", _sandbox_text(preview.sandbox)),
        ("output", f"{preview.output}: {_resume_text(preview)}"),
        ("servers", ", ".join(preview.servers)),
    ]
    return table([(name, printable(text, max_characters=1000)) for name, text in rows])


def estimate_lines(estimate: RestEstimate, *, parallel: int) -> list[str]:
    seen = f"the {counted(estimate.seen, 'rollout')} that {'was' if estimate.seen == 1 else 'were'} played"
    left = f"the {counted(estimate.rollouts, 'rollout')} left" if estimate.rollouts > 1 else "the rollout left"
    has_range = estimate.wall_s.low_95 is not None
    head = f"{left}, if like {seen}" + (
        "  [95 % of the time within]" if has_range else "; one says nothing of the spread"
    )
    rows = [
        ("time", _range(estimate.wall_s, duration), f"{min(parallel, estimate.rollouts)} in flight"),
        ("tokens in", _range(estimate.input_tokens, _whole), "policy and judge"),
        ("tokens out", _range(estimate.output_tokens, _whole), ""),
        ("sandboxes", _range(estimate.sandbox_s, duration), "all together"),
        ("cost", _cost(estimate), ""),
    ]
    return [head, *table(rows)]


def prices_text(prices: TokenPrices | None) -> str:
    if prices is None:
        return "no prices, so no cost"
    cached = "" if prices.cached_input is None else f", {prices.cached_input:g} cached"
    return f"{prices.input:g} in{cached}, {prices.output:g} out {prices.currency} a million tokens"


def _cost(estimate: RestEstimate) -> str:
    currency = estimate.currency
    if estimate.cost is None or currency is None:
        return "not known: no prices, or an endpoint that does not count"
    return _range(estimate.cost, lambda amount: money(amount, currency))


def _range(forecast: Forecast, text: Callable[[float], str]) -> str:
    if forecast.low_95 is None or forecast.high_95 is None:
        return text(forecast.mean)
    return f"{text(forecast.mean)}  [{text(forecast.low_95)}, {text(forecast.high_95)}]"


def _whole(number: float) -> str:
    return f"{round(number):,}"


def _data_text(preview: RunPreview) -> str:
    there = (
        f"from {preview.path}" if preview.tasks is not None else f"not prepared yet; a run would make {preview.path}"
    )
    return f"{preview.dataset}, {there}"


def _rollouts_text(preview: RunPreview) -> str:
    flight = f"{preview.parallel} in flight"
    if preview.tasks is None:
        return f"{counted(preview.repeats, 'repeat')} of each task, {flight}"
    total = preview.tasks * preview.repeats
    return f"{counted(preview.tasks, 'task')} x {counted(preview.repeats, 'repeat')} = {total}, {flight}"


def _model_text(model: ModelPreview | None) -> str:
    if model is None:
        return "none"
    name = f"{model.model} at {', '.join(model.urls)}" if model.urls else model.model or "no endpoint"
    return f"{model.server} ({model.implementation}): {name}; {prices_text(model.prices)}"


def _sandbox_text(sandbox: SandboxPreview | None) -> str:
    if sandbox is None:
        return "none lent"
    image = f" with {sandbox.image}" if sandbox.image else ""
    network = {"model_only": "the policy server alone reachable", "none": "no network"}[sandbox.network]
    return f"{sandbox.provider}{image}, {sandbox.cpu:g} CPU, {sandbox.memory_mib} MiB, {network}"


def _resume_text(preview: RunPreview) -> str:
    resume = preview.resume
    left = "all of them" if preview.left is None else f"{preview.left}"
    if not resume.kept and not resume.again:
        return f"nothing there yet, {left} to play"
    again = f" (of them {resume.again} masked before and tried again)" if resume.again else ""
    return f"resumes, {resume.kept} kept, {left} to play{again}"
