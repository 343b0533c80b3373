"""`gym doctor`: tries what a run needs, a line each, and says what to do, before an hour is wasted."""

import argparse
import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gym_core.cli.selection import Selection, check_composed
from gym_core.cli.terminal import counted, printable, say
from gym_core.errors import ConfigError, EpisodeError
from gym_core.types.checkup import CheckState, Finding

if TYPE_CHECKING:
    from gym_core.config.blocks import CheckedConfig
    from gym_core.config.compose import Composed
    from gym_core.config.datasets import SelectedDataset
    from gym_core.types.run import RunOptions

_OK, _FAILED = 0, 1
_POLICY = "policy_model"
_STAND_IN = "scripted_model"
"""A policy that needs nothing: where none was selected, so that the rest of a configuration can be checked."""
_RESULTS = Path("results")
_LINE_LENGTH = 1200


def doctor_command(args: argparse.Namespace) -> int:
    """0 when nothing fails; a warning is no failure. Raises ConfigError for overrides of nothing."""
    found: list[Finding] = []

    def tell(finding: Finding) -> None:
        found.append(finding)
        if not args.json:
            for line in finding_lines(finding):
                say(line)

    logging.getLogger().addHandler(logging.NullHandler())  # servers in this process would log between the lines
    asyncio.run(_examine(Doctor(Selection.of(args), args.output), tell))
    failures = sum(finding.state is CheckState.FAIL for finding in found)
    if args.json:
        findings = [finding.model_dump(mode="json") for finding in found]
        say(json.dumps({"ok": not failures, "findings": findings}, indent=2))
    else:
        warnings = sum(finding.state is CheckState.WARN for finding in found)
        counts = [counted(n, noun) for n, noun in ((failures, "failure"), (warnings, "warning")) if n]
        say(", ".join(counts) or "all is well")
    return _FAILED if failures else _OK


def finding_lines(finding: Finding) -> list[str]:
    """A line, and below it what to do. Found words may be a stranger's."""
    head = f"{finding.state:<4}  {finding.check:<9} {finding.on}: {finding.tried}: {finding.found}"
    lines = [printable(head, max_characters=_LINE_LENGTH)]
    if finding.advice:
        lines.append(printable(f"{'':<16}-> {finding.advice}", max_characters=_LINE_LENGTH))
    return lines


async def _examine(doctor: "Doctor", tell: Callable[[Finding], None]) -> None:
    async for finding in doctor.findings():
        tell(finding)


@dataclass(frozen=True)
class Doctor:
    selection: Selection
    output: str | None = None
    """Where the rollouts of a run would go."""

    def __post_init__(self) -> None:
        words = [word for word in self.selection.overrides if "output_jsonl_fpath=" not in word]
        if words and not self.is_configured:
            raise ConfigError("config: overrides change a configuration, and none is selected; give --benchmark NAME")

    @property
    def is_configured(self) -> bool:
        given = self.selection
        return bool(given.benchmark or given.environment or given.model_type or given.configs)

    async def findings(self) -> AsyncIterator[Finding]:
        """As they are found: what is quick comes first. Never raises for what is wrong with a gym."""
        composed, checked, mistakes = self._configuration() if self.is_configured else (None, None, [])
        for finding in mistakes:
            yield finding
        for finding in await asyncio.to_thread(lambda: list(self._places(composed, checked))):
            yield finding
        if composed is not None:
            for finding in await asyncio.to_thread(lambda: list(_data(composed, are_mistakes_told=bool(mistakes)))):
                yield finding
        async for finding in self._sandboxes(checked):
            yield finding
        if checked is not None:
            async for finding in self._servers(checked):
                yield finding

    def _places(self, composed: "Composed | None", checked: "CheckedConfig | None") -> Iterable[Finding]:
        """Blocking."""
        from gym_core.cli.checkup_places import disk_finding, output_finding, resume_finding
        from gym_core.launch.state import state_root
        from gym_core.sandbox.toolkit import toolkit_dir

        output = composed.values.get("output_jsonl_fpath") if composed else self.output
        if isinstance(output, str):
            path = Path(output).expanduser().absolute()
            written = output_finding(path)
            yield written
            can_plan = checked is not None and not self._lacks_policy and written.state is CheckState.OK
            resume = resume_finding(path, (checked, _options(checked)) if checked and can_plan else None)
            if resume is not None:
                yield resume
            yield disk_finding(path.parent, what="results")
        else:
            yield disk_finding(_RESULTS.absolute(), what="results")
        yield disk_finding(state_root(), what="logs and sandboxes")
        if not toolkit_dir().exists():
            yield disk_finding(toolkit_dir(), what="the toolkit")

    def _configuration(self) -> "tuple[Composed | None, CheckedConfig | None, list[Finding]]":
        try:
            composed = self._completed().compose()
        except ConfigError as error:
            return None, None, _mistakes(error)
        try:
            return composed, check_composed(composed), []
        except ConfigError as error:
            return composed, None, _mistakes(error)

    @property
    def _lacks_policy(self) -> bool:
        if self.selection.model_type:
            return False
        try:
            return _POLICY not in self.selection.compose().values
        except ConfigError:
            return False

    def _completed(self) -> Selection:
        return replace(self.selection, model_type=_STAND_IN) if self._lacks_policy else self.selection

    async def _sandboxes(self, checked: "CheckedConfig | None") -> AsyncIterator[Finding]:
        from gym_core.cli.readiness import needs_toolkit
        from gym_core.launch.checkup import EMBEDDED, check_sandboxes, sandbox_parts

        if self.is_configured and checked is None:
            return
        if checked is None or needs_toolkit(checked):
            toolkit = await asyncio.to_thread(_toolkit)
            yield toolkit
            if toolkit.state is not CheckState.OK:
                return  # a sandbox would fail for want of it
        async for finding in check_sandboxes(sandbox_parts(checked) if checked else [EMBEDDED]):
            yield finding

    async def _servers(self, checked: "CheckedConfig") -> AsyncIterator[Finding]:
        from gym_core.launch.checkup import check_servers

        if self._lacks_policy:
            yield Finding(
                check="endpoint",
                state=CheckState.WARN,
                tried="nothing",
                on=_POLICY,
                found="no policy is selected, so no endpoint was looked at",
                advice="add --model-type vllm_model ++policy_base_url=... ++policy_model_name=...",
            )
        try:
            async for finding in check_servers(checked, with_policy=not self._lacks_policy):
                yield finding
        except (ConfigError, EpisodeError, OSError) as error:
            yield Finding(
                check="servers",
                state=CheckState.FAIL,
                tried="started inside this process",
                on="127.0.0.1",
                found=str(error),
                advice="a port that a block names may be taken",
            )


def _options(checked: "CheckedConfig") -> "RunOptions":
    from gym_core.config.resolve import read_run_options

    return read_run_options(checked.run)


def _toolkit() -> Finding:
    from gym_core.cli.checkup_places import toolkit_finding

    return toolkit_finding()


def _mistakes(error: ConfigError) -> list[Finding]:
    return [
        Finding(
            check="config",
            state=CheckState.FAIL,
            tried="checked as a run checks it",
            on="configuration",
            found=problem.removeprefix("config: "),
            advice="docs/config.md; `gym config show` says where each value comes from",
        )
        for problem in error.problems
    ]


def _data(composed: "Composed", *, are_mistakes_told: bool) -> Iterable[Finding]:
    """Blocking. None for a configuration without an environment."""
    from gym_core.cli.checkup_places import data_finding

    try:
        selected = _selected(composed)
    except ConfigError as error:
        if not are_mistakes_told:
            yield from _mistakes(error)
        return
    for dataset in selected:
        yield data_finding(dataset)


def _selected(composed: "Composed") -> "list[SelectedDataset]":
    """Of the split that a run would play; of all where none is said. Raises ConfigError."""
    from gym_core.config.datasets import read_environments, select_datasets

    environments = read_environments(composed)
    if not environments:
        return []
    split, environment = composed.values.get("split"), composed.values.get("environment")
    return select_datasets(environments, composed, split=split, environment=environment)
