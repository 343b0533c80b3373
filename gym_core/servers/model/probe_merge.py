"""The reports of several endpoints of one model as one: what holds of all, and who differs from the others in what."""

from collections.abc import Callable, Sequence

from gym_core.types.model_call import EndpointReport
from gym_core.types.wire import JsonObject

_LEAST: dict[str, Callable[[list[object]], object]] = {
    "context_tokens": lambda values: min(value for value in values if isinstance(value, int)),
    "gives_logprobs": all,
    "gives_token_ids": all,
    "accepts_images": all,
    "leaks_list_content": any,
    "logprobs_mode": lambda _: "unknown",
    "image_tokens": lambda _: None,
    "accepts_token_prompts": all,
}
"""What can be relied on where endpoints differ. They should not, in any of these."""


def merge_reports(urls: Sequence[str], reports: Sequence[EndpointReport]) -> EndpointReport:
    """`urls` name the reports, of which there is one at least. The message says which endpoint fails or differs."""
    first, *others = reports
    if not others:
        return first
    named = list(zip(urls, reports, strict=True))
    messages = [f"{url}: {report.message.removeprefix(f'{url}: ')}" for url, report in named if report.message]
    answering = [(url, report) for url, report in named if report.answers]
    found: JsonObject = {}
    if answering:
        for name, least in _LEAST.items():
            values = [getattr(report, name) for _, report in answering]
            messages += _differences(name, [url for url, _ in answering], values)
            found[name] = values[0] if all(value == values[0] for value in values) else least(values)
        messages += _missing_model([(url, report) for url, report in answering if report.served_models])
    return first.model_copy(
        update=found
        | {
            "ok": all(report.ok for report in reports),
            "answers": len(answering) == len(reports),
            "message": "; ".join(messages),
            "served_models": list(dict.fromkeys(name for report in reports for name in report.served_models)),
        }
    )


def _differences(name: str, urls: list[str], values: list[object]) -> list[str]:
    usual = values[0]
    return [
        f"{url}: {name} is {value}, but {usual} at {urls[0]}"
        for url, value in zip(urls, values, strict=True)
        if value != usual
    ]


def _missing_model(listing: list[tuple[str, EndpointReport]]) -> list[str]:
    """Those that do not list the model although others do."""
    missing = [(url, report) for url, report in listing if report.model not in report.served_models]
    if len(missing) == len(listing):
        return []
    return [f"{url}: it serves {', '.join(report.served_models)}, not {report.model}" for url, report in missing]
